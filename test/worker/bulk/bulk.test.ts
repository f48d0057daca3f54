// One request for many devices: what each of them gets, what is told of each, and what happens if an object ends in its midst.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import type { BulkRun } from '../../../src/objects/bulk-run.ts';
import { DeviceSession } from '../../../src/objects/device/device-session.ts';
import { createKey } from '../rig/authorization-callers.ts';
import {
  endRun,
  pause,
  readBulk,
  ringBulk,
  runOf,
  startBulk,
  takeCommand,
  untilBulk,
  untilSettled,
  type Bulk,
} from '../rig/bulk.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, createUser, makeDevice, makeProduct } from '../rig/clients/client.ts';
import {
  activate,
  activateOnline,
  bridge,
  listOf,
  nextCommand,
  owner,
  prepareOwnerAndBridge,
  reply,
  report,
  setClock,
  unheard,
  up,
  type Device,
} from '../rig/commands.ts';
import { limiter, sendWith } from '../rig/limited.ts';
import { activate as activateSerial, tokenOf } from '../rig/ownership.ts';

const pulse = { action: 'pulse' };
const idsOf = (devices: Device[]) => devices.map(({ deviceId }) => deviceId);
const many = (count: number) => Promise.all(Array.from({ length: count }, activateOnline));
const outcomes = ({ list }: Bulk) => list.map(({ outcome, reason }) => reason ?? outcome);
const answered = async (device: Device, code = 200) => {
  const { id, params } = await takeCommand(device);
  await bringUp(device, reply(id, code));
  return params;
};

prepareOwnerAndBridge();

describe('a run', () => {
  it('gives each device its command once, and tells the outcome of each', async () => {
    const [shown, acknowledged, failed, silent] = await many(4);
    const disabled = await activate();
    await call('PATCH', `/devices/${disabled.deviceId}`, { token: owner.token, body: { disabled: true } });
    const [readonly, foreign] = [await activate('readonly'), await makeDevice(await createUser())];
    const serial = { token: owner.token, body: { serials: ['SN-2'] } };
    const path = `/products/${readonly.productKey}/serials`;
    const { list: serials } = (await call<{ list: Device[] }>('POST', path, serial)).data;
    const devices = [shown!, acknowledged!, failed!, silent!, disabled, readonly, foreign];
    const deviceIds = [...idsOf([...devices, ...serials]), 'dev_00000000', 'no-device'];
    const { data } = await startBulk({ devices: deviceIds, command: up });
    expect(data).toEqual({ bulkId: expect.stringMatching(/^[0-9a-z]{16}$/) as string, total: 10 });
    for (const device of [shown!, acknowledged!]) expect(await answered(device)).toEqual(up);
    await answered(failed!, 500);
    await nextCommand(silent!);
    await bringUp(shown!, report({ position: 'up' }));
    const under = await untilBulk(data.bulkId, ({ summary }) => summary['confirmed'] === 1 && summary['failed'] === 1);
    expect(under).toMatchObject({ state: 'running', summary: { under_way: 2, refused: 6 }, total: 10, scene: null });
    setClock(Date.now() + 25_000);
    await ringBulk(data.bulkId);
    const settled = await readBulk(data.bulkId);
    const refused = 'device_disabled,forbidden,forbidden,device_not_activated,device_not_found,device_not_found';
    expect(outcomes(settled).join()).toBe(`confirmed,acknowledged,device replied 500,no_reply,${refused}`);
    expect(settled).toMatchObject({ state: 'settled', dryRun: false, listed: true });
    const [command] = (await listOf(shown!)).list;
    expect(settled.list[0]).toEqual({ deviceId: shown!.deviceId, outcome: 'confirmed', reason: null, command });
    expect(command).toMatchObject({ final: true });
    for (const device of devices) expect(unheard(device)).toEqual([]);
    const page = await readBulk(data.bulkId, '?page=2&size=2');
    expect(page).toMatchObject({ total: 10, page: 2, size: 2, list: settled.list.slice(2, 4) });
  });

  it('tells at once of devices that are away, and of a broker that is', async () => {
    const devices = await many(2);
    bridge.hasSubscribers = false;
    const away = await endRun({ devices: idsOf(devices), command: pulse });
    expect(outcomes(away)).toEqual(['no_subscriber', 'no_subscriber']);
    expect(away.summary).toEqual({ undelivered: 2 });
    bridge.hasSubscribers = 'refused';
    expect(outcomes(await endRun({ devices: idsOf(devices), command: pulse }))[0]).toBe('broker_unavailable');
    bridge.hasSubscribers = 'cancelled';
    const { bulkId } = (await startBulk({ devices: idsOf(devices), command: pulse })).data;
    const asked = await untilBulk(bulkId, ({ list }) => list.every(({ command }) => command !== null));
    // One of them has it, and replies.
    const { commandId } = asked.list[0]!.command!;
    await bringUp(devices[0]!, reply(commandId, 200));
    setClock(Date.now() + 12_000);
    const unknown = { outcome: 'unknown', reason: 'outcome_unknown', command: { state: 'expired' } };
    expect(await untilSettled(bulkId)).toMatchObject({ list: [{ outcome: 'acknowledged' }, unknown] });
  });

  it('sends nothing if it is dry', async () => {
    const [device] = await many(1);
    const deviceIds = [device!.deviceId, (await activate('readonly')).deviceId];
    const dry = await endRun({ devices: deviceIds, command: up, dryRun: true });
    expect(dry).toMatchObject({ dryRun: true, summary: { would_take: 1, refused: 1 } });
    expect(outcomes(dry)).toEqual(['would_take', 'forbidden']);
    expect([unheard(device!), (await listOf(device!)).total]).toEqual([[], 0]);
  });

  it('is the same for the same key of a user, and no other request', async () => {
    const [device] = await many(1);
    const body = { devices: [device!.deviceId], command: pulse, idempotencyKey: 'evening' };
    const [first, again] = [await startBulk(body), await startBulk(body)];
    expect(again.data).toEqual(first.data);
    const held = readBulk(first.data.bulkId, '?wait=10');
    await answered(device!);
    expect(await held).toMatchObject({ state: 'settled', summary: { acknowledged: 1 } });
    expect((await startBulk(body)).data).toEqual(first.data);
    expect(unheard(device!)).toEqual([]);
    const message = 'invalid_request: idempotencyKey: was used for another command';
    expect(await startBulk({ ...body, command: up })).toMatchObject({ code: 400, message });
    const other = await startBulk(body, await createUser());
    expect(other.data.bulkId).not.toBe(first.data.bulkId);
  });

  it('has no more commands under way than asked for, and none is given while it is paused', async () => {
    const devices = await many(3);
    const order = { devices: idsOf(devices), command: pulse, maxInFlight: 1 };
    const { bulkId } = (await startBulk(order)).data;
    await answered(devices[0]!);
    const first = await nextCommand(devices[1]!);
    expect([await ringBulk(bulkId), unheard(devices[2]!)]).toEqual([true, []]);
    expect((await pause(bulkId, true)).data).toEqual({ bulkId, paused: true });
    await bringUp(devices[1]!, reply(first.id, 200));
    const paused = await untilBulk(bulkId, ({ summary }) => summary['acknowledged'] === 2);
    expect(paused).toMatchObject({ state: 'paused', summary: { waiting: 1 } });
    expect([await ringBulk(bulkId), unheard(devices[2]!)]).toEqual([true, []]);
    await pause(bulkId, false);
    await answered(devices[2]!);
    expect((await untilSettled(bulkId)).summary).toEqual({ acknowledged: 3 });
    expect(await call('PATCH', `/bulk/${bulkId}`, { ...(await createUser()), body: { paused: true } })).toMatchObject({
      code: 404,
    });
  });

  it('presses nobody twice if its object ends before the devices have answered', async () => {
    const devices = await many(3);
    type Give = (this: DeviceSession, ...args: Parameters<DeviceSession['command']>) => Promise<unknown>;
    const give: Give = Reflect.get(DeviceSession.prototype, 'command');
    const gives = vi.spyOn(DeviceSession.prototype, 'command').mockImplementation(async function (
      this: DeviceSession,
      ...args
    ) {
      await give.apply(this, args);
      return new Promise(() => undefined);
    });
    const { bulkId } = (await startBulk({ devices: idsOf(devices), command: pulse })).data;
    for (const device of devices) await answered(device);
    await runInDurableObject(runOf(bulkId), (_, state) => state.abort('killed')).catch(() => undefined);
    gives.mockRestore();
    const nowMs = Date.now();
    setClock(nowMs + 16_000);
    expect(await ringBulk(bulkId)).toBe(true);
    setClock(nowMs + 32_000);
    expect((await untilSettled(bulkId)).summary).toEqual({ acknowledged: 3 });
    for (const device of devices) expect([unheard(device), (await listOf(device)).total]).toEqual([[], 1]);
  });

  it('gives up a device that does not answer for two minutes', async () => {
    const [device] = await many(1);
    const gives = vi.spyOn(DeviceSession.prototype, 'command').mockRejectedValue(new Error('away'));
    const { bulkId } = (await startBulk({ devices: [device!.deviceId], command: pulse })).data;
    await vi.waitFor(() => expect(gives).toHaveBeenCalledTimes(1));
    const nowMs = Date.now();
    setClock(nowMs + 11_000);
    await vi.waitFor(async () => expect([await ringBulk(bulkId), gives.mock.calls.length]).toEqual([true, 2]));
    setClock(nowMs + 121_000);
    const { list } = await untilSettled(bulkId);
    expect(list).toMatchObject([{ outcome: 'unknown', reason: 'no_answer', command: null }]);
    expect(gives).toHaveBeenCalledTimes(2);
  });

  it('ends with the API key that made it', async () => {
    const devices = await many(2);
    const key = await createKey(owner);
    const body = { devices: idsOf(devices), command: pulse, maxInFlight: 1 };
    const { bulkId } = (await call<{ bulkId: string }>('POST', '/commands', { key, body })).data;
    await nextCommand(devices[0]!);
    await call('DELETE', `/users/api-keys/${key.keyId}`, { token: owner.token });
    setClock(Date.now() + 61_000);
    expect(outcomes(await untilSettled(bulkId))).toEqual(['no_reply', 'forbidden']);
    expect(unheard(devices[1]!)).toEqual([]);
  });

  it('is for its user alone, and for keys of its product', async () => {
    const [device] = await many(1);
    const { bulkId } = (await startBulk({ devices: [device!.deviceId], command: pulse, dryRun: true })).data;
    const codeFor = async (body: object) =>
      (await call('GET', `/bulk/${bulkId}`, { key: await createKey(owner, body) })).code;
    expect([await codeFor({}), await codeFor({ scopes: ['read'] })]).toEqual([200, 200]);
    expect([await codeFor({ scopes: ['manage'] }), await codeFor({ productKey: device!.productKey })]).toEqual([
      403, 404,
    ]);
    expect(await call('GET', `/bulk/${bulkId}`, await createUser())).toMatchObject({ code: 404, message: 'not_found' });
    const invented = '0123456789abcdef';
    expect(await call('GET', `/bulk/${invented}`, owner)).toMatchObject({ code: 404, message: 'not_found' });
    const tables = await runInDurableObject(runOf(invented), (_, { storage }) =>
      storage.sql.exec('SELECT name FROM sqlite_master').toArray(),
    );
    expect(tables).toEqual([]);
  });

  it('is gone after seven days', async () => {
    const { bulkId } = (await startBulk({ devices: ['dev_00000000'], command: pulse })).data;
    await untilSettled(bulkId);
    setClock(Date.now() + 7 * 86_400_000);
    await ringBulk(bulkId);
    expect(await call('GET', `/bulk/${bulkId}`, owner)).toMatchObject({ code: 404 });
    expect(await ringBulk(bulkId)).toBe(false);
  });

  it('goes to the devices of a group, or of a tag', async () => {
    const [device, other] = await many(2);
    const { token } = owner;
    await call('PATCH', `/devices/${device!.deviceId}`, { token, body: { tags: ['lamp'] } });
    const group = { name: 'All', deviceIds: idsOf([device!, other!]) };
    const { groupId } = (await call<{ groupId: string }>('POST', '/groups', { token, body: group })).data;
    const idsIn = async (choice: object) =>
      (await endRun({ ...choice, command: up, dryRun: true })).list.map((item) => item.deviceId);
    expect(await idsIn({ groupId })).toEqual(group.deviceIds);
    expect(await idsIn({ tag: 'lamp', productKey: device!.productKey })).toEqual([device!.deviceId]);
    expect(await idsIn({ tag: 'lamp', productKey: other!.productKey })).toEqual([]);
    expect(await startBulk({ groupId: 'none', command: up })).toMatchObject({ code: 404, message: 'not_found' });
  });
});

it.each([
  ['devices: ', { devices: Array.from({ length: 501 }, (_, index) => `dev_${index}`) }],
  ['devices: ', { devices: [] }],
  ['devices: ', { devices: ['dev_00000000', 'dev_00000000'] }],
  ['devices: either', {}],
  ['devices: either', { devices: ['dev_00000000'], tag: 'lamp' }],
  ['productKey: only', { devices: ['dev_00000000'], productKey: 'switch' }],
  ['maxInFlight: ', { devices: ['dev_00000000'], maxInFlight: 501 }],
  ['idempotencyKey: ', { devices: ['dev_00000000'], idempotencyKey: 'x'.repeat(65) }],
])('a request is refused: %s', async (problem, body) => {
  const { code, message } = await startBulk({ command: up, ...body });
  expect({ code, message }).toEqual({ code: 400, message: expect.stringContaining(`request: ${problem}`) as string });
});

it('a command is read as that for one device, and BULK_LIMIT holds the requests of a user', async () => {
  expect(await startBulk({ devices: ['dev_00000000'] })).toMatchObject({ code: 400, message: 'no_control_params' });
  const limited = { RATE_LIMITS: 'production', BULK_LIMIT: limiter(1) };
  const body = { devices: ['dev_00000000'], command: up, dryRun: true };
  const codes = [];
  for (const { token } of [owner, owner, await createUser()])
    codes.push((await sendWith(limited, 'POST', '/commands', { token, body })).status);
  expect(codes).toEqual([200, 429, 200]);
});

it('a maker sends a command to the devices that nobody has claimed, page by page, at most 200 in a second', async () => {
  const productKey = await makeProduct(owner);
  const claimed = await activateSerial(productKey, await tokenOf(await createUser()), { deviceSN: 'claimed' });
  const own = [];
  for (const deviceSN of ['first', 'last']) {
    own.push({ productKey, deviceId: (await activateSerial(productKey, undefined, { deviceSN })).data.deviceId });
    // Devices without a session.
    const rows = `insert into devices (device_id, product_id, device_sn, owner_id, project_id, name, firmware_version, chip_model,
        connection_status, created_at, activated_at)
      with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 150)
      select 'dev_' || ?1 || n, product_id, ?1 || n, owner_id, project_id, name, '', '', 2, 0, 1
      from devices, numbers where device_id = ?2`;
    await env.DB.prepare(rows).bind(deviceSN, own.at(-1)!.deviceId).run();
  }
  const path = `/products/${productKey}/commands`;
  const { data } = await startBulk({ command: pulse }, owner, path);
  for (const device of own) expect(await answered(device)).toEqual(pulse);
  const settled = await untilSettled(data.bulkId);
  expect(settled).toMatchObject({ total: 302, listed: true, summary: { acknowledged: 2, refused: 300 } });
  const times = await runInDurableObject(runOf(data.bulkId), (_, { storage }) =>
    storage.sql.exec<{ at: number }>('SELECT begun_at AS at FROM item ORDER BY 1').toArray(),
  );
  for (const [index, { at }] of times.slice(200).entries()) expect(at - times[index]!.at).toBeGreaterThanOrEqual(1_000);
  expect(JSON.stringify(settled.list)).not.toContain(claimed.data.deviceId);
  expect(await startBulk({ command: pulse }, await createUser(), path)).toMatchObject({ code: 403 });
});

it('two rounds at once list each device of a product once', async () => {
  const { deviceId } = await activate();
  const { userId, productId } = (await env.DB.prepare(
    'select owner_id as userId, product_id as productId from devices where device_id = ?',
  )
    .bind(deviceId)
    .first<{ userId: number; productId: number }>())!;
  const fleet = { productId, params: pulse };
  const order = { actor: inPerson(userId), digest: '', scene: null, fleet, dryRun: true, maxInFlight: 100 };
  const listed = await runInDurableObject(runOf('two-rounds'), async (run: BulkRun, { storage }) => {
    await run.start(order, []);
    await Promise.all([run.alarm(), run.alarm()]);
    return storage.sql.exec('SELECT device_id FROM item').toArray();
  });
  expect(listed).toEqual([{ device_id: deviceId }]);
});
