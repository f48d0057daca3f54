// Devices that show as online although nobody said that their session is over: the broker has forgotten it, or is asked.
import { env } from 'cloudflare:workers';
import { runDurableObjectAlarm } from 'cloudflare:test';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { messagingName } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { createContext } from '../../../src/context.ts';
import { reconcilePresence } from '../../../src/services/operations/presence-reconciliation.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, createUser, makeDevice, type TestUser } from '../rig/clients/client.ts';
import { sessionOf, reportConnected } from '../rig/provision.ts';
import { closeBridges, dialIn, link } from '../rig/clients/link.ts';
import type { TestSocket } from '../rig/clients/socket.ts';

type Device = { productKey: string; deviceId: string };
type View = { online: boolean; lastOnlineAt: string };
type Listed = { deviceId: string; status: string; lastOnlineAt: string };

const api = { url: 'https://broker.test', key: 'key', secret: 'secret' };

let owner: TestUser;
beforeAll(async () => {
  owner = await createUser();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await closeBridges();
});

function contextOf({ hasApi, grace = 300 }: { hasApi: boolean; grace?: number }) {
  const config = readConfig(env);
  const limits = { ...config.limits, brokerRestartGraceSeconds: grace };
  return createContext(env, { ...config, limits, broker: { ...config.broker, api: hasApi ? api : undefined } });
}

/** Online by a session that began a minute ago, in the object and in D1. */
async function activateOnline(startedAtMs = Date.now() - 60_000): Promise<Device> {
  const device = await makeDevice(owner, { offlineGraceSeconds: 0 });
  await reportConnected(device, startedAtMs);
  await vi.waitFor(async () => expect(await listed(device)).toMatchObject({ status: 'online' }));
  return device;
}

async function read<T>({ deviceId }: Device, path: string): Promise<T> {
  return (await call<T>('GET', `/devices/${deviceId}${path}`, { token: owner.token })).data;
}
const view = (device: Device) => read<View>(device, '/status');
const lastEvent = async (device: Device) =>
  (await read<{ list: { status: string; reason: string }[] }>(device, '/events')).list.find(
    ({ status }) => status !== 'activated',
  );

async function listed({ productKey }: Device): Promise<Listed | undefined> {
  const { data } = await call<{ list: Listed[] }>('GET', `/devices?productKey=${productKey}`, { token: owner.token });
  return data.list[0];
}

let connections = 0;
/** The bridge has connected to the broker, which has its session or not. */
async function connectBroker(bridge: TestSocket, isPresent: boolean, more: object = {}): Promise<void> {
  const connectionId = `connection-${++connections}`;
  const session = { name: 'latchwork-bridge', connectionId, isPresent, readUntilMsAgo: 0, ...more };
  const untilConnected = (connected: boolean) =>
    vi.waitFor(async () => expect((await link().health()).brokerConnected).toBe(connected));
  bridge.send({ type: 'broker', connected: true, session });
  await untilConnected(true);
  bridge.send({ type: 'broker', connected: false });
  await untilConnected(false);
}

const forgottenBeforeMs = async () => (await link().readReconciliation()).forgottenBeforeMs;

describe('a broker that has forgotten its sessions', () => {
  it('is one that had the session of a bridge and has it no more, and each connection counts once', async () => {
    const { bridge } = await dialIn('one', false);
    await connectBroker(bridge, false);
    expect(await forgottenBeforeMs(), 'the first session of all').toBeNull();
    await connectBroker(bridge, true);
    expect(await forgottenBeforeMs(), 'it is there').toBeNull();
    await connectBroker(bridge, false);
    const beforeMs = await forgottenBeforeMs();
    expect(beforeMs).toBeGreaterThan(Date.now() - 60_000);
    await connectBroker(bridge, false, { connectionId: `connection-${connections}` });
    expect(await forgottenBeforeMs()).toBe(beforeMs);
    await reconcilePresence(contextOf({ hasApi: false }));
    expect(await forgottenBeforeMs()).toBeNull();
    await connectBroker(bridge, false, { name: 'another' });
    expect(await forgottenBeforeMs(), 'a bridge with a session of its own').toBeNull();
  });

  it('has devices show in time that they are there, and the others go offline', async () => {
    const [lost, talking, reconnected] = [await activateOnline(), await activateOnline(), await activateOnline()];
    const seenAt = (await view(lost)).lastOnlineAt;
    const { bridge } = await dialIn('one', false);
    await connectBroker(bridge, true);
    await connectBroker(bridge, false);
    await reconcilePresence(contextOf({ hasApi: false, grace: 10 }));
    expect(await view(lost)).toMatchObject({ online: true, lastOnlineAt: seenAt });
    await bringUp(talking, { action: topicActions.propertyPost, payload: { params: { position: 'up' } } });
    const { deviceId } = reconnected;
    await reportConnected({ deviceId });
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 11_000);
    for (const device of [lost, talking, reconnected]) await runDurableObjectAlarm(sessionOf(device.deviceId));
    expect(await view(lost)).toMatchObject({ online: false, lastOnlineAt: seenAt });
    expect(await lastEvent(lost)).toMatchObject({ status: 'offline', reason: 'unconfirmed' });
    expect(await view(talking)).toMatchObject({ online: true });
    expect(await view(reconnected)).toMatchObject({ online: true });
  });

  it('changes nothing for sessions that began after the bridge had lost it', async () => {
    const { bridge } = await dialIn('one', false);
    await connectBroker(bridge, true);
    const device = await activateOnline(Date.now());
    await connectBroker(bridge, false, { readUntilMsAgo: 30_000 });
    await reconcilePresence(contextOf({ hasApi: false }));
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 301_000);
    await runDurableObjectAlarm(sessionOf(device.deviceId));
    expect(await view(device)).toMatchObject({ online: true });
  });
});

describe('a broker with an API', () => {
  type Client = { status: number; body: unknown };
  const connected: Client = { status: 200, body: { clientid: 'x', connected: true } };
  const unknown: Client = { status: 404, body: { code: 'CLIENTID_NOT_FOUND' } };
  const asleep: Client = { status: 200, body: { clientid: 'x', connected: false } };

  function serveApi(clientOf: (name: string) => Client): string[] {
    const asked: string[] = [];
    vi.spyOn(globalThis, 'fetch').mockImplementation((input) => {
      const name = decodeURIComponent(new Request(input).url.split('/').at(-1) ?? '');
      asked.push(name);
      const { status, body } = clientOf(name);
      return Promise.resolve(Response.json(body, { status }));
    });
    return asked;
  }

  it('is asked, and a device without a connection there is offline from its last sign of life on', async () => {
    const [there, gone, resting] = [await activateOnline(), await activateOnline(), await activateOnline()];
    const clients = new Map([
      [messagingName(gone), unknown],
      [messagingName(resting), asleep],
    ]);
    serveApi((name) => clients.get(name) ?? connected);
    const seenAt = (await view(gone)).lastOnlineAt;
    await reconcilePresence(contextOf({ hasApi: true }));
    expect(await view(there)).toMatchObject({ online: true });
    for (const device of [gone, resting]) {
      expect(await view(device)).toMatchObject({ online: false });
      expect(await lastEvent(device)).toMatchObject({ status: 'offline', reason: 'unconfirmed' });
    }
    expect((await view(gone)).lastOnlineAt).toBe(seenAt);
    // A second change of a device is written 2 s after the first.
    const isListed = async () => expect(await listed(gone)).toMatchObject({ status: 'offline', lastOnlineAt: seenAt });
    await vi.waitFor(isListed);
  });

  it('does not end a session that began while it was asked', async () => {
    const device = await activateOnline(Date.now());
    serveApi(() => unknown);
    await reconcilePresence(contextOf({ hasApi: true }));
    expect(await view(device)).toMatchObject({ online: true });
  });

  it('that refuses to say anything about one device is asked about those after it', async () => {
    const [odd, gone] = [await activateOnline(), await activateOnline()];
    const oddName = messagingName(odd);
    serveApi((name) => (name === oddName ? { status: 400, body: { code: 'BAD_REQUEST' } } : unknown));
    for (let run = 0; run < 40 && (await view(gone)).online; run += 1) {
      await reconcilePresence(contextOf({ hasApi: true }), 1);
    }
    expect(await view(gone)).toMatchObject({ online: false });
    expect(await view(odd)).toMatchObject({ online: true });
  });

  it('is asked about a few at a time, each in its turn', async () => {
    const devices = [await activateOnline(), await activateOnline(), await activateOnline()];
    const names = devices.map(messagingName);
    const asked = serveApi(() => connected);
    const runs: string[][] = [];
    for (let run = 0; run < 40 && !names.every((name) => runs.flat().includes(name)); run += 1) {
      await reconcilePresence(contextOf({ hasApi: true }), 1);
      runs.push(asked.splice(0));
    }
    expect(Math.max(...runs.map(({ length }) => length))).toBe(1);
    expect(runs.flat()).toEqual(expect.arrayContaining(names));
  });

  it.each([
    ['is away', { status: 503, body: {} }],
    ['answers what cannot be read', { status: 200, body: { some: 'page' } }],
    ['knows no such path', { status: 404, body: { code: 'NOT_FOUND' } }],
  ])('that %s ends nothing, and the same devices are asked about again', async (_, answer) => {
    const device = await activateOnline();
    serveApi(() => answer);
    const before = await link().readReconciliation();
    await reconcilePresence(contextOf({ hasApi: true }));
    expect(await view(device)).toMatchObject({ online: true });
    expect(await link().readReconciliation()).toEqual(before);
  });
});
