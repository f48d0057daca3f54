// The pages of the reference as the Worker sends them. How they look and work is seen in a browser.
import { expect, it } from 'vitest';
import { send } from '../rig/clients/client.ts';

it('load nothing from elsewhere, and could not if they wanted to', async () => {
  for (const path of ['/docs', '/docs/messages', '/docs/relay', '/docs/firmware']) {
    const response = await send('GET', path);
    const html = await response.text();
    expect(html).not.toMatch(/(src|href)="(?!\/)/);
    expect(html).not.toMatch(/<style|<script>|style=|\son\w+=/);
    const policy = response.headers.get('Content-Security-Policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).not.toContain('unsafe');
    expect(policy).not.toContain('http');
    expect(response.headers.get('X-Content-Type-Options')).toBe('nosniff');
  }
});

it('are sent again only when they changed', async () => {
  const first = await send('GET', '/docs');
  const etag = first.headers.get('ETag');
  expect(etag).toBeTruthy();
  expect((await send('GET', '/docs', { headers: { 'If-None-Match': etag! } })).status).toBe(304);
});

it('do not make unknown paths into pages', async () => {
  for (const path of ['/index.html', '/docs/nothing', '/docs/../src/app.ts', '/docs.html/x', '/robots.txt']) {
    const response = await send('GET', path);
    expect(response.status, path).toBe(404);
    expect(await response.json(), path).toEqual({ code: 404, message: 'not_found', data: null });
  }
  expect((await send('POST', '/docs')).status).toBe(404);
});
