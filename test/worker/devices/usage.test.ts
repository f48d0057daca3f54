// Usage and history over HTTP, through the real object, its alarm and D1. What is counted is tested on the core:
// test/unit/usage/usage.test.ts and series.test.ts.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { gt } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { deleteExpiredRows } from '../../../src/db/expired-rows.ts';
import { openDatabase } from '../../../src/db/client.ts';
import { writeProjections } from '../../../src/db/devices/devices.ts';
import { productUsage } from '../../../src/db/schema/products.ts';
import { emptyDay } from '../../../src/domain/device/usage/usage.ts';
import { DeviceStorage } from '../../../src/objects/device/storage.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, createUser, openSession, send, type Answer } from '../rig/clients/client.ts';
import {
  activateOnline,
  control,
  disconnect,
  nextCommand,
  owner,
  prepareOwnerAndBridge,
  reply,
  report,
  ring,
  setClock,
  sleep,
  type Device,
} from '../rig/commands.ts';
import { sessionOf } from '../rig/provision.ts';

type Step = Record<'seconds' | 'onSeconds' | 'offSeconds' | 'unknownSeconds' | 'failures', number> & {
  from: string;
  zone: string;
  presses: Record<string, number>;
};
type Usage = { list: Step[]; timeline?: { changes: unknown[]; isCut: boolean } };

const hourMs = 3_600_000;
const zone = 'Europe/Berlin';
/** Noon there, in winter. */
const noonMs = Date.UTC(2027, 0, 12, 11);

const get = <T>(path: string, token = owner.token) => call<T>('GET', path, { token });
const usageOf = ({ deviceId }: Device, query = ''): Promise<Answer<Usage>> => get(`/devices/${deviceId}/usage${query}`);
const historyOf = ({ deviceId }: Device, query: string): Promise<Answer<{ list: Record<string, number>[] }>> =>
  get(`/devices/${deviceId}/history?${query}`);
const csvOf = async (path: string, accept: string) => {
  const response = await send('GET', path, { token: owner.token, headers: { Accept: accept } });
  return { type: response.headers.get('Content-Type'), text: await response.text() };
};

prepareOwnerAndBridge();

/** Tokens end sooner than days. */
async function moveTo(atMs: number): Promise<void> {
  setClock(atMs);
  owner.token = await openSession(owner.userId, 0, `session at ${atMs}`);
}

async function inBerlin(): Promise<Device> {
  await moveTo(noonMs);
  expect(await call('PUT', '/users/me/zone', { token: owner.token, body: { zone } })).toMatchObject({ code: 200 });
  const device = await activateOnline();
  await bringUp(device, report({ position: 'middle', power: 3 }));
  return device;
}

/** As time passes: each alarm at its time. */
async function waitUntil(device: Device, untilMs: number): Promise<void> {
  const alarmOf = () => runInDurableObject(sessionOf(device.deviceId), (_, { storage }) => storage.getAlarm());
  for (let dueAtMs = await alarmOf(); dueAtMs !== null && dueAtMs <= untilMs; dueAtMs = await alarmOf()) {
    setClock(Math.max(dueAtMs, Date.now()));
    await ring(device);
  }
  await moveTo(untilMs);
}

async function press(device: Device, position: string): Promise<void> {
  await control(device, { action: 'toggle', position });
  const { id } = await nextCommand(device);
  await bringUp(device, reply(id, 200), report({ position }));
}

it('counts a day, and tells it once after its end', async () => {
  const device = await inBerlin();
  expect((await get<object>('/users/me/zone')).data).toEqual({ zone });
  await waitUntil(device, noonMs + hourMs);
  await press(device, 'up');
  await waitUntil(device, noonMs + 3 * hourMs);
  await sleep(device);
  const presses = { person: 1, key: 0, schedule: 0, scene: 0, hand: 0 };
  const [from, to] = ['2027-01-12', '2027-01-12'];
  const soFar = { from, to, zone, seconds: 15 * 3600, offSeconds: 3600, onSeconds: 2 * 3600, presses, failures: 0 };
  const { timeline, list } = (await usageOf(device, `?from=${from}`)).data;
  expect(list).toEqual([{ ...soFar, unknownSeconds: 12 * 3600 }]);
  expect(timeline).toEqual({ changes: [[12 * 3600, 'off'], [13 * 3600, 'on']], isCut: false }); // prettier-ignore
  await disconnect(device);
  await waitUntil(device, noonMs + 20 * hourMs);
  const whole = { ...soFar, seconds: 24 * 3600, unknownSeconds: 21 * 3600 };
  const closed = await usageOf(device, `?from=${from}&to=${from}`);
  expect(closed.data).toMatchObject({ list: [whole], timeline: { changes: { length: 3 } } });
  const ofProduct = await get(`/products/${device.productKey}/usage`);
  const sums = {
    devices: 1,
    onSeconds: 2 * 3600,
    offSeconds: 3600,
    unknownSeconds: 21 * 3600,
    presses: 1,
    failures: 0,
  };
  expect(ofProduct.data).toEqual({ list: [{ date: from, ...sums }] });
});

it('history is read by quarters, hours and days, over the end of a day and a sleep', async () => {
  const device = await inBerlin();
  await waitUntil(device, noonMs + hourMs / 4);
  await bringUp(device, report({ power: 5 }), report({ power: -7 }));
  await waitUntil(device, noonMs + 24 * hourMs);
  await bringUp(device, report({ power: 1 }));
  await sleep(device);
  const at = (ms: number) => new Date(noonMs + ms).toISOString();
  const one = (atMs: number, value: number) =>
    ({ at: at(atMs), least: value, greatest: value, mean: value, last: value, count: 1 }); // prettier-ignore
  const moved = { least: -7, greatest: 5, mean: -1, last: -7, count: 2 };
  expect((await historyOf(device, 'property=power&step=quarter')).data).toEqual({
    ...{ property: 'power', zone },
    list: [one(0, 3), { at: at(hourMs / 4), ...moved }, one(24 * hourMs, 1)],
  });
  const hour = { at: at(0), least: -7, greatest: 5, mean: 1 / 3, last: -7, count: 3 };
  expect((await historyOf(device, 'property=power')).data.list).toEqual([hour, one(24 * hourMs, 1)]);
  const days = (await historyOf(device, 'property=power&step=day&from=2027-01-12&to=2027-01-12')).data.list;
  expect(days).toEqual([{ ...hour, at: at(-12 * hourMs) }]);
  const { type, text } = await csvOf(`/devices/${device.deviceId}/history?property=power`, 'text/csv');
  expect(type).toBe('text/csv; charset=utf-8');
  expect(text.split('\r\n')).toEqual([
    'at,least,greatest,mean,last,count',
    `${at(0)},-7,5,${1 / 3},-7,3`,
    `${at(24 * hourMs)},1,1,1,1,1`,
    '',
  ]);
});

it('usage comes as CSV only if it is preferred', async () => {
  const { deviceId, productKey } = await inBerlin();
  const path = `/devices/${deviceId}/usage?from=2027-01-11`;
  for (const accept of ['text/csv', 'application/json;q=0.5, text/csv', 'text/*']) {
    const { text } = await csvOf(path, accept);
    expect(text.split('\r\n')).toEqual([
      'from,to,zone,seconds,onSeconds,offSeconds,unknownSeconds,person,key,schedule,scene,hand,failures',
      `2027-01-11,2027-01-11,${zone},86400,0,0,86400,0,0,0,0,0,0`,
      `2027-01-12,2027-01-12,${zone},43200,0,0,43200,0,0,0,0,0,0`,
      '',
    ]);
  }
  for (const accept of ['application/json', '*/*', 'text/csv;q=0, */*', 'text/csv;q=0.5, application/json']) {
    expect((await csvOf(path, accept)).type).toContain('application/json');
  }
  const empty = await csvOf(`/products/${productKey}/usage`, 'text/csv');
  expect(empty.text).toBe('date,devices,onSeconds,offSeconds,unknownSeconds,presses,failures\r\n');
});

it('is refused for a wrong range, step, property or zone, and to strangers', async () => {
  const device = await inBerlin();
  const path = `/devices/${device.deviceId}`;
  const wrong = [
    '/usage?from=2027-02-30',
    '/usage?step=year',
    '/usage?from=2025-12-01&to=2025-12-02',
    '/usage?from=2027-01-12&to=2027-01-11',
    '/history',
    `/history?property=${'p'.repeat(65)}`,
    '/history?property=power&step=quarter&from=2027-01-01',
  ];
  for (const query of wrong) expect((await get(path + query)).message).toMatch(/^invalid_request: /);
  expect((await usageOf(device, '?from=2025-01-01&to=2025-01-02')).message).toContain('is the first day that is kept');
  expect((await get(`/products/${device.productKey}/usage?from=2025-01-01&to=2025-01-02`)).code).toBe(400);
  const body = { zone: 'Mars/Olympus' };
  expect((await call('PUT', '/users/me/zone', { token: owner.token, body })).message).toContain('name of a time zone');
  const stranger = await createUser();
  for (const name of ['usage', 'history?property=power']) {
    expect((await get(`${path}/${name}`, stranger.token)).code).toBe(403);
  }
  expect((await get(`/products/${device.productKey}/usage`, stranger.token)).code).toBe(403);
  const key = { scopes: ['read'], deviceIds: [(await inBerlin()).deviceId] };
  const { data } = await call<{ keyId: string; apiKey: string }>('POST', '/users/api-keys', {
    token: owner.token,
    body: key,
  });
  const headers = { 'X-Key-Id': data.keyId, 'X-API-Key': data.apiKey };
  const asKey = async (deviceId: string) => (await call('GET', `/devices/${deviceId}/usage`, { headers })).code;
  expect([await asKey(device.deviceId), await asKey(key.deviceIds[0]!)]).toEqual([403, 200]);
  expect((await call('GET', `/products/${device.productKey}/usage`, { headers })).code).toBe(403);
});

it('of a product counts each device once a day, however often it is told', async () => {
  const devices = [await inBerlin(), await inBerlin()];
  const database = openDatabase(env.DB);
  const usage = [11, 12].map((day) => ({ ...emptyDay(20_000 + day, zone, 0, 86_400_000), onMs: 1_000, failures: 1 }));
  const projection = {
    name: 'A',
    isDisabled: false,
    connectionStatus: 1,
    lastOnlineAt: 1,
    owner: null,
    dueAt: null,
  } as const;
  const tell = (version: number, days: typeof usage) =>
    writeProjections(
      database,
      devices.map(({ deviceId }) => ({ deviceId, projection: { ...projection, version, usage: days } })),
    );
  await tell(101, usage.slice(0, 1));
  // The answer was lost, and a newer one overtakes an older one.
  await tell(101, usage.slice(0, 1));
  await tell(103, usage);
  await tell(102, usage);
  await tell(104, usage);
  const rows = () => database.select().from(productUsage).where(gt(productUsage.day, 20_000));
  const sums = { devices: 1, onSeconds: 1, offSeconds: 0, unknownSeconds: 86_399, presses: 0, failures: 1 };
  const told = (await rows()).filter(({ day }) => day < 20_013);
  expect(told).toMatchObject([sums, sums, sums, sums]);
  await deleteExpiredRows(database, (20_000 + 12 + 400) * 86_400_000 - 1);
  expect((await rows()).filter(({ day }) => day < 20_013).map(({ day }) => day)).toEqual([20_012, 20_012]);
});

it('keeps 400 days, 30 of quarters and 365 of hours, and none for another owner', async () => {
  const device = await inBerlin();
  const rows = await runInDurableObject(sessionOf(device.deviceId), (_, { storage }) => {
    const kept = new DeviceStorage(storage.sql);
    for (let number = 20_000; number < 20_500; number++) {
      const entry = { day: number, fromMs: 0, buckets: [] };
      kept.appendHistory([
        { kind: 'day', number, entry: emptyDay(number, zone, 0, 1) },
        { kind: 'quarters', number, entry },
        { kind: 'hours', number, entry },
      ]);
    }
    const counts = (['day', 'quarters', 'hours'] as const).map((kind) => kept.listDays(kind, 0, 30_000).length);
    kept.forgetOwner();
    return [...counts, kept.listDays('day', 0, 30_000).length];
  });
  expect(rows).toEqual([400, 30, 365, 0]);
});
