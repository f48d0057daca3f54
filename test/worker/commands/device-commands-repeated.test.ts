// Commands whose answer waits for the device's reply, and requests that a client repeats under an Idempotency-Key.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { IdempotencyRecord } from '../../../src/domain/device/commands/commands.ts';
import { DeviceStorage } from '../../../src/objects/device/storage.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, createUser } from '../rig/clients/client.ts';
import { share } from '../rig/sharing.ts';
import {
  activateOnline,
  bridge,
  closeBridge,
  control,
  disconnect,
  down,
  listOf,
  nextCommand,
  openBridge,
  owner,
  reply,
  setClock,
  signUpOwner,
  sleep,
  unheard,
  up,
  type Receipt,
} from '../rig/commands.ts';

beforeAll(signUpOwner);
beforeEach(openBridge);
afterEach(closeBridge);

describe('?wait', () => {
  it('holds the answer until the device replied, and says how long it took', async () => {
    const device = await activateOnline();
    const answering = control(device, up, '?wait=5');
    const { id } = await nextCommand(device);
    await bringUp(device, reply(id, 200));
    const { data } = await answering;
    expect(data).toMatchObject({ message: 'command_sent', commandId: id, state: 'acknowledged' });
    expect(data.elapsedMs).toBeGreaterThanOrEqual(0);
    expect(data.elapsedMs).toBeLessThan(5_000);
  });

  it('ends with the time, saying that nobody replied', async () => {
    const device = await activateOnline();
    const { data } = await control(device, up, '?wait=1');
    expect(data).toMatchObject({ message: 'command_sent', state: 'sent' });
    expect(data.elapsedMs).toBeGreaterThanOrEqual(1_000);
  });

  it('waits for nobody where nobody was subscribed', async () => {
    const device = await activateOnline();
    bridge.hasSubscribers = false;
    const { data } = await control(device, up, '?wait=10');
    expect(data).toMatchObject({ state: 'undelivered' });
    expect(data.elapsedMs).toBeLessThan(5_000);
  });
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
      new DeviceStorage(storage).writeIdempotencyRecord(record, nowMs);
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
