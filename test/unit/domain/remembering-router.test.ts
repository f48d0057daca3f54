// The router that remembers what it found: the same answers as without, whatever was asked before.
import { Hono } from 'hono';
import { describe, expect, it } from 'vitest';
import { RememberingRouter } from '../../../src/http/remembering-router.ts';

const app = new Hono({ router: new RememberingRouter() });
app.get('/api/v1/devices/transfers', (c) => c.text('transfers'));
app.get('/api/v1/devices/:deviceId', (c) => c.text(`read ${c.req.param('deviceId')} ${c.req.query('page') ?? ''}`));
app.post('/api/v1/devices/:deviceId', (c) => c.text(`send to ${c.req.param('deviceId')}`));
app.delete('/api/v1/devices/:deviceId', (c) => c.text(`delete ${c.req.param('deviceId')}`));

async function ask(path: string, method = 'GET'): Promise<string> {
  return (await app.request(`/api/v1${path}`, { method })).text();
}

describe('the router', () => {
  it('answers a path that was asked before as it did then', async () => {
    for (let round = 0; round < 3; round += 1) {
      expect(await ask('/devices/dev_1')).toBe('read dev_1 ');
      expect(await ask('/devices/dev_2?page=3')).toBe('read dev_2 3');
      expect(await ask('/devices/transfers')).toBe('transfers');
      expect(await ask('/devices/dev_1', 'POST')).toBe('send to dev_1');
      expect(await ask('/devices/dev_1', 'DELETE')).toBe('delete dev_1');
      expect(await ask('/nothing')).toBe('404 Not Found');
    }
  });

  it('answers more paths than it remembers', async () => {
    const ids = Array.from({ length: 2_500 }, (_, index) => `dev_${index}`);
    for (const id of [...ids, ...ids]) expect(await ask(`/devices/${id}`)).toBe(`read ${id} `);
    const long = 'x'.repeat(500);
    for (const id of [long, long]) expect(await ask(`/devices/${id}`)).toBe(`read ${id} `);
  });
});
