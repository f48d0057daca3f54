// Commands for a device that is away: queued with ?ttl, published when it returns, cancelled. And requests that a client repeats
// under an Idempotency-Key.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { IdempotencyRecord } from '../../../src/domain/device/commands/commands.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { DeviceStorage } from '../../../src/objects/device/storage.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { createKey, type Key } from '../rig/authorization-callers.ts';
import { call, createUser, type CallOptions, type TestUser } from '../rig/clients/client.ts';
import { share } from '../rig/sharing.ts';
import {
  activate,
  activateOnline,
  bridge,
  cancel,
  connect,
  control,
  disconnect,
  down,
  listOf,
  nextCommand,
  prepareOwnerAndBridge,
  owner,
  read,
  reply,
  report,
  ring,
  setClock,
  sleep,
  unheard,
  up,
  type Device,
  type Receipt,
} from '../rig/commands.ts';

const { propertySet, status } = topicActions;

prepareOwnerAndBridge();

describe('?ttl', () => {
  it.each<[string, (device: Device) => Promise<unknown>]>([
    ['connects', connect],
    ['announces itself', (device) => bringUp(device, { action: status, payload: { status: 'online' } })],
    ['reports', (device) => bringUp(device, report({ angle: 1 }))],
  ])('publishes it again, with the same id, when the device %s', async (_, comeBack) => {
    const device = await activate();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    const first = await nextCommand(device);
    expect(await read(device, commandId)).toMatchObject({ state: 'waiting', kept: true });
    await sleep(device);
    await comeBack(device);
    expect(await nextCommand(device)).toEqual(first);
    await expect.poll(() => read(device, commandId)).toMatchObject({ state: 'sent' });
  });

  it('is kept by the broker no longer than it lives', async () => {
    const device = await activate();
    const nowMs = Date.now();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    expect((await bridge.nextFor(device, propertySet)).messageExpirySeconds).toBe(10);
    setClock(nowMs + 57_500);
    await connect(device);
    const again = await bridge.nextFor(device, propertySet);
    expect(again.body).toMatchObject({ id: commandId });
    expect(again.messageExpirySeconds).toBeLessThanOrEqual(3);
  });
});

describe('the queued command', () => {
  let device: Device;
  let operator: TestUser;
  let key: Key;

  beforeEach(async () => {
    [device, operator] = await Promise.all([activate(), createUser()]);
    await share(device, operator, 'operator', owner);
    key = await createKey(owner, { scopes: ['control'] });
  });

  const byOwner = (method: string, path: string, body?: object) => call(method, path, { token: owner.token, body });
  const ofMember = () => `/devices/${device.deviceId}/members/${operator.userId}`;
  async function queue(options: CallOptions) {
    const sent = await call<Receipt>('POST', `/devices/${device.deviceId}/control?ttl=60`, { ...options, body: up });
    await nextCommand(device);
    return sent.data.commandId;
  }

  it.each<[string, string, () => Promise<unknown>]>([
    ['of a removed operator', 'cancelled', () => byOwner('DELETE', ofMember())],
    ['of an operator made a viewer', 'cancelled', () => byOwner('PATCH', ofMember(), { role: 'viewer' })],
    ['of an operator invited anew as a viewer', 'cancelled', () => share(device, operator, 'viewer', owner)],
    [
      'of an operator with a disabled account',
      'waiting',
      () => env.DB.prepare('update users set disabled_at = 1 where id = ?').bind(operator.userId).run(),
    ],
    ['of a deleted API key', 'waiting', () => byOwner('DELETE', `/users/api-keys/${key.keyId}`)],
  ])('%s is not carried out', async (giver, state, end) => {
    const commandId = await queue(giver.endsWith('key') ? { key } : { token: operator.token });
    await end();
    expect(await read(device, commandId)).toMatchObject({ state });
    await sleep(device);
    await connect(device);
    await expect.poll(() => read(device, commandId)).toMatchObject({ state: 'cancelled', reason: 'revoked' });
    await ring(device);
    expect(unheard(device)).toEqual([]);
  });

  it('of a valid key or operator is carried out, also when another member is removed', async () => {
    const other = await createUser();
    for (const giver of [{ token: operator.token }, { key }]) {
      await share(device, other, 'operator', owner);
      const commandId = await queue(giver);
      await byOwner('DELETE', `/devices/${device.deviceId}/members/${other.userId}`);
      await sleep(device);
      await connect(device);
      expect(await nextCommand(device)).toMatchObject({ id: commandId });
      await bringUp(device, reply(commandId, 200));
      await disconnect(device);
    }
  });
});

describe('DELETE /devices/:deviceId/commands/:commandId', () => {
  it('cancels one that waits for its device', async () => {
    const device = await activate();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    await nextCommand(device);
    const { status: code, data } = await cancel(device, commandId);
    expect(code).toBe(200);
    expect(data).toMatchObject({ commandId, state: 'cancelled', reason: 'requested' });
    await connect(device);
    await ring(device);
    expect(unheard(device)).toEqual([]);
  });

  it('cancels nothing that was published to a device that is there, or that is over', async () => {
    const device = await activateOnline();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    expect(await cancel(device, commandId)).toMatchObject({
      status: 400,
      message: 'invalid_request: commandId: is published already',
    });
    await bringUp(device, reply(commandId, 200));
    expect((await cancel(device, commandId)).message).toBe('invalid_request: commandId: is acknowledged already');
    expect(await cancel(device, 'no-such-command')).toMatchObject({ status: 404, message: 'not_found' });
  });
});

it('?wait waits for nobody where nobody was subscribed', async () => {
  const device = await activateOnline();
  bridge.hasSubscribers = false;
  const { data } = await control(device, up, '?wait=10');
  expect(data).toMatchObject({ state: 'undelivered' });
  expect(data.elapsedMs).toBeLessThan(5_000);
});

describe('Idempotency-Key', () => {
  const withKey = (key: string) => ({ 'Idempotency-Key': key });

  it('makes the same request the same command: same answer, not sent again, also after sleep', async () => {
    const device = await activateOnline();
    const first = await control(device, up, '', withKey('light on'));
    await nextCommand(device);
    await disconnect(device);
    const again = await control(device, up, '', withKey('light on'));
    expect(again.data).toEqual(first.data);
    await sleep(device);
    expect((await control(device, up, '', withKey('light on'))).data).toEqual(first.data);
    expect(unheard(device)).toEqual([]);
    expect((await listOf(device)).total).toBe(1);
  });

  it('is one command for requests that come at the same moment', async () => {
    const device = await activateOnline();
    const answers = await Promise.all(Array.from({ length: 5 }, () => control(device, up, '', withKey('k'))));
    expect(new Set(answers.map(({ data }) => data.commandId)).size).toBe(1);
    await nextCommand(device);
    expect(unheard(device)).toEqual([]);
  });

  it('belongs to its command: another body or another ttl is a mistake', async () => {
    const device = await activateOnline();
    await control(device, up, '', withKey('k'));
    for (const [body, query] of [
      [down, ''],
      [up, '?ttl=5'],
    ] as const) {
      const { status: code, message } = await control(device, body, query, withKey('k'));
      expect(code).toBe(400);
      expect(message).toMatch(/^invalid_request: Idempotency-Key/);
    }
    expect((await control(device, { position: 'up', action: 'toggle' }, '', withKey('k'))).status, 'same').toBe(200);
  });

  it('of an operator does not swallow the command of the owner', async () => {
    const device = await activateOnline();
    const operator = await createUser();
    await share(device, operator, 'operator', owner);
    const path = `/devices/${device.deviceId}/control`;
    const first = await call<Receipt>('POST', path, { token: operator.token, body: up, headers: withKey('k') });
    await nextCommand(device);
    for (const body of [up, up]) {
      const own = await control(device, body, '', withKey('k'));
      expect(own).toMatchObject({ status: 200 });
      expect(own.data.commandId).not.toBe(first.data.commandId);
    }
    await nextCommand(device);
    expect(unheard(device)).toEqual([]);
    expect((await listOf(device)).total).toBe(2);
  });

  it('repeats a failure, too: what was not delivered is not delivered later', async () => {
    const device = await activateOnline();
    bridge.hasSubscribers = 'refused';
    expect((await control(device, up, '', withKey('k'))).status).toBe(500);
    bridge.hasSubscribers = null;
    expect((await control(device, up, '', withKey('k'))).status).toBe(500);
    expect(unheard(device)).toEqual([]);
  });

  it('ends after a day', async () => {
    const device = await activateOnline();
    const first = await control(device, up, '', withKey('k'));
    const nowMs = Date.now();
    setClock(nowMs + 24 * 3_600_000 - 1_000);
    expect((await control(device, up, '', withKey('k'))).data.commandId).toBe(first.data.commandId);
    setClock(nowMs + 24 * 3_600_000 + 1_000);
    expect((await control(device, up, '', withKey('k'))).data.commandId).not.toBe(first.data.commandId);
  });

  it('fills no storage: the oldest of very many are forgotten, those of a day and the newest are not', async () => {
    const device = await activateOnline();
    const { kept, plan } = await runInDurableObject(env.DEVICE_SESSION.getByName(device.deviceId), (_, { storage }) => {
      const nowMs = Date.now();
      storage.sql.exec(
        `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10500)
         INSERT INTO idempotency_record SELECT 'key ' || n, ${nowMs} - n, '{}' FROM n`,
      );
      vi.spyOn(Math, 'random').mockReturnValue(0);
      const record = { key: 'newest', createdAtMs: nowMs } as IdempotencyRecord;
      new DeviceStorage(storage.sql).writeIdempotencyRecord(record, nowMs);
      vi.restoreAllMocks();
      const count = 'SELECT count(*) AS count, max(created_at) AS newest FROM idempotency_record';
      const deletion = `EXPLAIN QUERY PLAN DELETE FROM idempotency_record WHERE created_at <= 1`;
      return { kept: storage.sql.exec(count).one(), plan: JSON.stringify(storage.sql.exec(deletion).toArray()) };
    });
    expect(kept['count']).toBe(10_001);
    expect(plan).toContain('idempotency_record_age');
  });

  it('outlives the hundred commands that are listed', async () => {
    const device = await activateOnline();
    const first = await control(device, up, '', withKey('k'));
    for (let number = 0; number < 101; number++) await control(device, { angle: number });
    expect((await control(device, up, '', withKey('k'))).data).toEqual(first.data);
  });

  it.each(['', 'x'.repeat(65), 'naïve'])('refuses %j', async (key) => {
    const device = await activateOnline();
    expect(await control(device, up, '', withKey(key))).toMatchObject({ status: 400, data: null });
  });

  it('waits for the reply of the command it stands for', async () => {
    const device = await activateOnline();
    const { commandId } = (await control(device, up, '', withKey('k'))).data;
    const answering = control(device, up, '?wait=5', withKey('k'));
    await bringUp(device, reply(commandId, 200));
    expect((await answering).data).toMatchObject({ commandId, state: 'acknowledged' });
  });
});
