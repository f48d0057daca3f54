// Presence of the real object: what subscribers, D1 and the history learn, and when, over sleep and wrong clocks.
import { env } from 'cloudflare:workers';
import { describe, expect, it } from 'vitest';
import { openDatabase } from '../../../src/db/client.ts';
import { writeProjections } from '../../../src/db/devices/devices.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, makeDevice } from '../rig/clients/client.ts';
import { reportConnected as connect, reportDisconnected as disconnect } from '../rig/provision.ts';
import { listenAs } from '../rig/clients/relay.ts';
import { bridge, owner, prepareOwnerAndBridge, ring, setClock, sleep, type Device } from '../rig/commands.ts';

const { propertyPost, status } = topicActions;

type Event = { status: string; reason: string; detail: string; time: string };
type Page = { list: Event[]; total: number; page: number; size: number };

prepareOwnerAndBridge();

const activate = (offlineGraceSeconds = 5) => makeDevice(owner, { offlineGraceSeconds });

async function read<T>({ deviceId }: Device, path: string): Promise<T> {
  const answer = await call<T>('GET', `/devices/${deviceId}${path}`, { token: owner.token });
  expect(answer.code).toBe(200);
  return answer.data;
}
const isOnline = async (device: Device) => (await read<{ online: boolean }>(device, '/status')).online;
const eventsOf = async (device: Device) =>
  (await read<Page>(device, '/events?size=100')).list.filter(({ status }) => status !== 'activated');
const said = async (device: Device) => (await bridge.nextFor(device, status)).body as { status: string; time: number };

describe('a change that the device did not announce', () => {
  it('is published at the broker and pushed to the relay, with the time of the service', async () => {
    const device = await activate(0);
    const topic = topicOf(device, status);
    const relay = await listenAs(owner, topic);
    const before = Date.now();
    await connect(device);
    const online = await said(device);
    expect(online).toEqual({ status: 'online', time: expect.any(Number) as number });
    expect(online.time).toBeGreaterThanOrEqual(before);
    expect(await relay.next()).toEqual({ topic, payload: online });
    await disconnect(device);
    const offline = await said(device);
    expect(offline.status).toBe('offline');
    expect(await relay.next()).toEqual({ topic, payload: offline });
    relay.close();
  });

  it('is told once the broker is there again', async () => {
    const device = await activate(0);
    bridge.hasSubscribers = 'refused';
    await connect(device);
    await sleep(device);
    bridge.hasSubscribers = null;
    expect(bridge.waitingFor(device, status)).toEqual([]);
    expect(await ring(device)).toBe(true);
    expect((await said(device)).status).toBe('online');
  });
});

it('flapping that turns out to be none is announced when the grace is over, also after sleep', async () => {
  const device = await activate(5);
  await connect(device);
  await said(device);
  await disconnect(device);
  await sleep(device);
  setClock(Date.now() + 5_001);
  await ring(device);
  expect((await said(device)).status).toBe('offline');
});

describe('GET /devices/:deviceId/events', () => {
  it('lists the changes with their reasons, newest first, in pages', async () => {
    const device = await activate();
    const startedAtMs = Date.now();
    await connect(device, startedAtMs);
    await disconnect(device, startedAtMs, 'keepalive_timeout');
    await bringUp(device, { action: status, payload: { status: 'online' }, receivedAtMs: Date.now() + 5_000 });
    const page = await read<Page>(device, '/events');
    expect(page).toMatchObject({ total: page.list.length, page: 1, size: 20 });
    const changes = page.list.filter((event) => event.status !== 'activated');
    expect(changes.at(-2)).toEqual({
      status: 'offline',
      reason: 'disconnected',
      detail: 'keepalive_timeout',
      time: expect.stringMatching(/Z$/) as string,
    });
    expect(changes.at(-1)).toMatchObject({ status: 'online', reason: 'connected' });
    expect((await read<Page>(device, '/events?size=1&page=2')).list).toEqual([page.list[1]]);
  });

  it('keeps the last hundred', async () => {
    const device = await activate();
    const startMs = Date.now();
    for (let number = 0; number < 60; number++) {
      setClock(startMs + number * 10_000);
      await bringUp(
        device,
        { action: status, payload: { status: 'online' } },
        { action: status, payload: { status: 'offline' } },
      );
    }
    const events = await eventsOf(device);
    expect(events).toHaveLength(100);
    expect(events[0]?.status).toBe('offline');
  });
});

it('inactivity ends a device that its broker holds only after a day from its last message, also over sleep', async () => {
  const device = await activate();
  const hourMs = 3_600_000;
  const startMs = Date.now();
  await connect(device, startMs);
  await said(device);
  for (const hours of [4, 8]) {
    await sleep(device);
    setClock(startMs + hours * hourMs);
    await bringUp(device, { action: propertyPost, payload: { position: 'up' } });
  }
  for (const [hours, online] of [[31, true] as const, [32, false] as const]) {
    await sleep(device);
    setClock(startMs + hours * hourMs);
    await ring(device);
    const lastOnlineAt = new Date(startMs + 8 * hourMs).toISOString();
    expect(await read(device, '/status')).toMatchObject({ online, lastOnlineAt });
  }
  expect((await eventsOf(device))[0]).toMatchObject({ status: 'offline', reason: 'silence' });
});

it('the projection in D1 is never overwritten by an older one', async () => {
  const device = await activate();
  const { deviceId } = device;
  const select = env.DB.prepare('select connection_status, projection_version from devices where device_id = ?');
  const row = () => select.bind(deviceId).first<{ connection_status: number; projection_version: number }>();
  await connect(device);
  await expect.poll(async () => (await row())?.connection_status).toBe(1);
  const version = (await row())!.projection_version;
  const older = {
    name: 'Older',
    isDisabled: true,
    connectionStatus: 2,
    lastOnlineAt: 1,
    owner: null,
    dueAt: null,
  } as const;
  await writeProjections(openDatabase(env.DB), [{ deviceId, projection: { ...older, version } }]);
  expect((await row())?.connection_status).toBe(1);
});

it('sleep between every two steps changes neither presence nor history nor what subscribers hear', async () => {
  const [awake, sleepy] = [await activate(0), await activate(0)];
  const base = Date.now() - 3_600_000;
  const steps: ((device: Device) => Promise<unknown>)[] = [
    (device) => connect(device, base),
    (device) => bringUp(device, { action: propertyPost, payload: { position: 'up' } }),
    (device) => connect(device, base + 60_000),
    (device) => disconnect(device, base, 'takenover'),
    (device) => bringUp(device, { action: status, payload: { status: 'offline' } }),
    (device) => bringUp(device, { action: propertyPost, payload: { angle: 3 } }),
    (device) => disconnect(device, base + 60_000),
    (device) => connect(device, base + 60_000),
    (device) => bringUp(device, { action: status, payload: 'nonsense' }),
    (device) => connect(device, base + 120_000),
  ];
  for (const [index, step] of steps.entries()) {
    await step(awake);
    await step(sleepy);
    await sleep(sleepy);
    const withoutTimes = async (device: Device) =>
      (await eventsOf(device)).map((event) => ({ ...event, time: undefined }));
    expect(await withoutTimes(sleepy), `after step ${index}`).toEqual(await withoutTimes(awake));
    expect(await isOnline(sleepy), `after step ${index}`).toBe(await isOnline(awake));
  }
  const words = (device: Device) => bridge.waitingFor(device, status).map((body) => (body as Event).status);
  await expect.poll(() => words(sleepy)).toEqual(words(awake));
});
