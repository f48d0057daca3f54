// Whose address counts if a device comes through a gateway: the address that the gateway tells with its secret. Nobody else is
// believed.
import { env } from 'cloudflare:workers';
import { expect, it } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { deviceAddressHeader } from '../../../src/protocol/gateway.ts';
import { send } from '../rig/clients/client.ts';
import { openSocket } from '../rig/clients/socket.ts';

const { limits, gatewaySecrets } = readConfig(env);
const through = (address: string, authorization = `Bearer ${gatewaySecrets[0] ?? ''}`) => ({
  'CF-Connecting-IP': '203.0.113.200',
  [deviceAddressHeader]: address,
  ...(authorization !== '' && { Authorization: authorization }),
});
const ask = (headers: Record<string, string>) =>
  send('GET', '/mqtt', { headers: { Upgrade: 'websocket', ...headers } });

it('is the one that limits count, not the address of the gateway', async () => {
  const crowded = '198.51.100.77';
  await Promise.all(
    Array.from({ length: limits.relaySocketsPerAddress / 10 }, () => openSocket('/mqtt', through(crowded))),
  );
  expect((await ask(through(crowded))).status).toBe(429);
  await openSocket('/mqtt', through('198.51.100.78'));
  await openSocket('/mqtt', { 'CF-Connecting-IP': '203.0.113.200' });
});

it.each([
  ['a wrong secret', 'Bearer gateway-secret-of-the-worker-tests-onlx'],
  ['a secret of another machine', 'Bearer bridge-secret-of-the-worker-tests-only'],
  ['no secret', ''],
  ['a secret in another form', `Basic ${gatewaySecrets[0] ?? ''}`],
])('is refused with %s', async (_name, authorization) => {
  for (const path of ['/mqtt', '/mqtt/dev_00000000']) {
    const headers = { Upgrade: 'websocket', ...through('198.51.100.79', authorization) };
    const refused = await send('GET', path, { headers });
    expect(refused.status).toBe(401);
    expect(await refused.json()).toEqual({ code: 401, message: 'unauthorized', data: null });
  }
});

it('has to be one', async () => {
  const refused = await ask(through('not an address'));
  expect(refused.status).toBe(400);
  expect(await refused.json()).toMatchObject({
    message: 'invalid_request: Latchwork-Device-Address: expected an IP address',
  });
});

it('is nothing to the other routes', async () => {
  const headers = through('198.51.100.80', 'Bearer nonsense');
  expect((await send('GET', '/api/v1/users/me', { headers })).status).toBe(401);
  expect((await send('GET', '/api/v1/openapi.json', { headers })).status).toBe(200);
});
