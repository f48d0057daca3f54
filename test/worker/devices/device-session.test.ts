// DeviceSession as an object: what it keeps over sleep, what it costs, and that strangers cannot fill it.
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { digestOf } from '../../../src/crypto/secrets.ts';
import { topicActions, type TopicAction } from '../../../src/protocol/mqtt.ts';
import type { InboundMessage } from '../../../src/domain/device/messages/inbox.ts';
import { TestBridge } from '../rig/clients/bridge.ts';
import { rowsWritten, untilSettled } from '../rig/device-rows.ts';
import {
  factsOf,
  ingest,
  provisionDevice,
  reportConnected,
  requestSubscription,
  sessionOf,
  type TestDevice,
  statusOf,
} from '../rig/provision.ts';

const { propertyPost, status } = topicActions;

const notFound = { ok: false, refusal: { kind: 'not_found', what: 'device' } };

// Without a bridge, announcements would wait for one, and sleep for them.
let bridge: TestBridge;
beforeAll(async () => {
  bridge = await TestBridge.dialIn();
});
afterAll(() => bridge.close());

const trigger = {
  params: { action: 'trigger' },
  ttlSeconds: undefined,
  waitSeconds: undefined,
  idempotencyKey: undefined,
};

let lastSeq = 0;
const messageOf = (action: TopicAction, payload: object, fields: Partial<InboundMessage> = {}): InboundMessage => ({
  ...{ seq: ++lastSeq, action, payload: JSON.stringify(payload), receivedAtMs: Date.now() },
  ...{ isDup: false, isSoleReader: false, isRetained: false, ...fields },
});

async function say({ deviceId, productKey }: TestDevice, ...message: Parameters<typeof messageOf>) {
  const [result] = await ingest(sessionOf(deviceId), productKey, 'spool', [messageOf(...message)]);
  return result!;
}

const report = (device: TestDevice, properties: object, more?: Partial<InboundMessage>) =>
  say(device, propertyPost, { params: properties }, more);

async function tablesOf(deviceId: string): Promise<string[]> {
  return runInDurableObject(sessionOf(deviceId), (_, { storage }) =>
    storage.sql
      .exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'",
      )
      .toArray()
      .map(({ name }) => name),
  );
}

it('an object that was never provisioned answers device_not_found to everything and writes nothing', async () => {
  const device = { deviceId: 'dev_00000000', productKey: 'switch' };
  const session = sessionOf(device.deviceId);
  const login = { productKey: 'switch', passwordDigest: await digestOf('guess') };
  for (const outcome of [
    await session.authenticate(login),
    await session.authenticate({ ...login, relayShard: 'relay-0' }),
    await session.status(inPerson(1)),
    await session.command(inPerson(1), trigger),
    await requestSubscription(device, 'relay-0'),
  ]) {
    expect(outcome).toMatchObject(notFound);
  }
  const results = await ingest(session, 'switch', 'spool', [messageOf(status, { status: 'online' })]);
  expect(results).toEqual([{ result: 'rejected', reason: 'device_not_found' }]);
  await reportConnected(device);
  await session.decide({ kind: 'subscription_ended', shard: 'relay-0', registrationId: 1 });
  await session.decide({ kind: 'deleted', actor: null });
  expect(await tablesOf(device.deviceId)).toEqual([]);
  expect(await runInDurableObject(session, (_, { storage }) => storage.getAlarm())).toBeNull();
});

describe('a session', () => {
  it('keeps credentials, properties, presence and listeners over sleep', async () => {
    const device = await provisionDevice();
    await reportConnected(device);
    await report(device, { position: 'middle', angle: 90 });
    await requestSubscription(device, 'relay-3');
    const before = await statusOf(device);
    await evictDurableObject(sessionOf(device.deviceId));
    expect(await statusOf(device)).toEqual({ ...before, lastOnlineAt: expect.any(String) as string });
    const passwordDigest = await digestOf(device.password);
    const login = await sessionOf(device.deviceId).authenticate({ productKey: device.productKey, passwordDigest });
    expect(login.ok).toBe(true);
    const { subscriptions: listeners } = await sessionOf(device.deviceId).ingest(device.productKey, 'spool', []);
    expect(listeners).toMatchObject([{ shard: 'relay-3' }]);
  });

  it('ignores what is retained', async () => {
    const device = await provisionDevice();
    expect(await say(device, status, { status: 'online' }, { isRetained: true })).toEqual({ result: 'ignored' });
    expect(await statusOf(device)).toMatchObject({ online: false });
  });
});

it('a batch of many changes is one row', async () => {
  const device = await provisionDevice();
  await reportConnected(device);
  await untilSettled(device.deviceId);
  const before = await rowsWritten(device.deviceId);
  const messages = Array.from({ length: 100 }, (_, angle) => messageOf(propertyPost, { angle }));
  await ingest(sessionOf(device.deviceId), device.productKey, 'spool', messages);
  expect(await rowsWritten(device.deviceId)).toBe(before + 1);
});

describe('a deleted device', () => {
  it('leaves nothing of itself, and never comes back under its id', async () => {
    const device = await provisionDevice();
    await report(device, { position: 'up' });
    const session = sessionOf(device.deviceId);
    await session.decide({ kind: 'deleted', actor: null });
    expect(await tablesOf(device.deviceId)).toEqual(['deleted']);
    const again = factsOf(device);
    expect(await session.provision(again)).toMatchObject(notFound);
    await evictDurableObject(session);
    expect(await session.provision(again)).toMatchObject(notFound);
    expect(await session.status(inPerson(1))).toMatchObject(notFound);
  });

  it('is forgotten altogether after a while', async () => {
    const device = await provisionDevice();
    const session = sessionOf(device.deviceId);
    await session.decide({ kind: 'deleted', actor: null });
    expect(await runDurableObjectAlarm(session)).toBe(true);
    expect(await tablesOf(device.deviceId)).toEqual([]);
  });
});

describe('storage', () => {
  it('that refuses one message of a batch takes the others, and that one is put aside', async () => {
    const device = await provisionDevice();
    const session = sessionOf(device.deviceId);
    await report(device, { position: 'up' });
    await runInDurableObject(session, (_, { storage }) => {
      storage.sql.exec(
        `CREATE TRIGGER full BEFORE UPDATE ON slice WHEN NEW.json LIKE '%"middle"%'
         BEGIN SELECT RAISE(ABORT, 'no room'); END`,
      );
    });
    const positions = ['down', 'middle', 'up'];
    const messages = positions.map((position) => messageOf(propertyPost, { params: { position } }));
    const results = await ingest(session, device.productKey, 'spool', messages);
    expect(results).toEqual([
      { result: 'accepted' },
      { result: 'rejected', reason: 'handling_failed' },
      { result: 'accepted' },
    ]);
    await evictDurableObject(session);
    expect(await statusOf(device)).toMatchObject({ position: 'up' });
    expect(await session.properties(inPerson(1))).toMatchObject({
      value: { positionChanges: [{ position: 'up' }, { position: 'down' }, { position: 'up' }] },
    });
  });

  it('of an earlier version is read with what is new at its initial value', async () => {
    const device = await provisionDevice();
    await reportConnected(device);
    await runInDurableObject(sessionOf(device.deviceId), (_, { storage }) => {
      const { json } = storage.sql.exec<{ json: string }>("SELECT json FROM slice WHERE name = 'activity'").one();
      type Row = { presence: { connection: Record<string, unknown> }; properties: unknown; subscriptions: unknown };
      const { presence, properties, subscriptions } = JSON.parse(json) as Row;
      const { isOnline, lastOnlineAtMs, lastAnnounced } = presence.connection;
      const connection = { isOnline, lastOnlineAtMs, lastAnnounced };
      const earlier = JSON.stringify({ presence: { connection }, properties, subscriptions });
      storage.sql.exec("UPDATE slice SET json = ? WHERE name = 'activity'", earlier);
    });
    await evictDurableObject(sessionOf(device.deviceId));
    expect(await statusOf(device)).toMatchObject({ online: true });
    expect(await report(device, { position: 'up' })).toEqual({ result: 'accepted' });
    expect(await statusOf(device)).toMatchObject({ position: 'up' });
  });
});
