// The hot paths (status view, commands, reports) and what is read of them need no D1.
import { createExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createApp } from '../../../src/app.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { uplinkPath } from '../../../src/protocol/bridge.ts';
import { TestBridge } from '../rig/clients/bridge.ts';
import { createUser, makeDevice, type TestUser } from '../rig/clients/client.ts';

const { propertyPost, propertySet } = topicActions;

let bridge: TestBridge;
let owner: TestUser;
let device: { productKey: string; deviceId: string };
beforeAll(async () => {
  [bridge, owner] = await Promise.all([TestBridge.dialIn(), createUser()]);
  device = await makeDevice(owner);
});
afterAll(() => bridge.close());

const brokenDatabase = {
  withSession: () => {
    throw new Error('D1 was asked');
  },
} as unknown as D1Database;

async function send(method: string, path: string, headers: Record<string, string>, body?: object): Promise<unknown> {
  const request = new Request(`https://latchwork.test${path}`, {
    method,
    headers: { ...headers, ...(body !== undefined && { 'Content-Type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const response = await createApp().fetch(request, { ...env, DB: brokenDatabase }, createExecutionContext());
  const answer = await response.json<{ code: number; data: unknown }>();
  expect(answer, `${method} ${path}`).toMatchObject({ code: 200 });
  return answer.data;
}

it('a command, its life, a report, the status view and the histories are served without D1', async () => {
  const bearer = { Authorization: `Bearer ${owner.token}` };
  const path = `/api/v1/devices/${device.deviceId}`;
  const sent = (await send('POST', `${path}/control`, bearer, { action: 'toggle', position: 'up' })) as {
    commandId: string;
  };
  expect((await bridge.nextFor(device, propertySet)).body).toMatchObject({ id: sent.commandId });
  const reply = { method: 'thing.service.property.set_reply', id: sent.commandId, code: 200 };
  const items = [reply, { params: { position: 'up' } }].map((payload, index) => ({
    seq: index + 1,
    topic: topicOf(device, propertyPost),
    payload: JSON.stringify(payload),
    receivedAtMs: Date.now(),
  }));
  const bridgeSecret = { Authorization: 'Bearer bridge-secret-of-the-worker-tests-only' };
  await send('POST', uplinkPath, bridgeSecret, { spoolId: 'no-d1', sentAtMs: Date.now(), items });
  expect(await send('GET', `${path}/status`, bearer)).toMatchObject({ online: true, position: 'up' });
  expect(await send('GET', `${path}/commands/${sent.commandId}`, bearer)).toMatchObject({ state: 'confirmed' });
  expect(await send('GET', `${path}/commands`, bearer)).toMatchObject({ total: 1 });
  expect(await send('GET', `${path}/events`, bearer)).toMatchObject({ total: 2 });
  expect(await send('GET', `${path}/properties`, bearer)).toMatchObject({ list: [{ name: 'position' }] });
});
