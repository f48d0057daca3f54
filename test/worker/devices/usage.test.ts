// Usage and history over HTTP, through the real object, its alarm and D1. What is counted is tested on the core:
// test/unit/device/usage.test.ts and series.test.ts.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { expect, it, vi } from 'vitest';
import { deleteExpiredRows } from '../../../src/db/expired-rows.ts';
import { openDatabase } from '../../../src/db/client.ts';
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
  up,
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
