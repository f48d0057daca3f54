// The WebSocket relay (contract 6, decision: relay): who receives what, and which frames are taken.
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { send } from '../rig/clients/client.ts';
import { provisionDevice } from '../rig/provision.ts';
import { authed, authOf, openRelay, ping, pong } from '../rig/clients/relay.ts';

describe('subscribing', () => {
  it('refuses unsubscribe before auth', async () => {
    const socket = await openRelay();
    expect(await socket.ask({ action: 'unsubscribe', topic: 'x' })).toMatchObject({ code: 401 });
  });
});

describe('frames', () => {
  it('answers a ping without an identity, in either spelling', async () => {
    const socket = await openRelay();
    expect(await socket.ask('{"action":"ping"}')).toEqual(pong);
    expect(await socket.ask(ping)).toEqual(pong);
  });

  it('answers a plain request with 400', async () => {
    const response = await send('GET', '/mqtt');
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: 400, data: null });
  });

  it('answers 500 when the device cannot be reached, and the frames behind it as ever', async () => {
    const device = await provisionDevice();
    const socket = await openRelay();
    const failing = { authenticate: () => Promise.reject(new Error('Durable Object is overloaded')) };
    const getByName = vi.spyOn(env.DEVICE_SESSION, 'getByName').mockReturnValueOnce(failing as never);
    try {
      socket.send(authOf(device));
      socket.send(ping);
      expect(await socket.next()).toEqual({ action: 'auth', code: 500, message: 'internal_error' });
      expect(await socket.next()).toEqual(pong);
    } finally {
      getByName.mockRestore();
    }
    expect(await socket.ask(authOf(device))).toEqual(authed);
  });
});
