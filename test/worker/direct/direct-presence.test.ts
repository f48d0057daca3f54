// Presence on a direct connection is exact, and its reasons are in the events: take-over, will, keep-alive, a lost process, disabling,
// deletion, new credentials, and a device that moves between direct and broker.
import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { digestOf } from '../../../src/crypto/secrets.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import {
  connectPacket,
  disconnectPacket,
  connectNew,
  DirectClient,
  packet,
  pingreq,
  publishPacket,
  type Level,
} from '../rig/clients/direct.ts';
import { eventsOf, provisionDevice, sessionOf, replacePassword, type TestDevice, statusOf } from '../rig/provision.ts';
import { listenAs } from '../rig/clients/relay.ts';

const { propertyPost, status } = topicActions;
const owner = inPerson(1);

/** Newest first. */
async function namesOfEvents(device: TestDevice) {
  // What concerns who owns it is tested elsewhere.
  const list = (await eventsOf(device)).filter(({ status }) => status !== 'activated' && status !== 'ownership');
  return list.map(({ status, reason, detail }) => [status, reason, detail].join(' ').trim());
}

const atClock = (atMs: number) => vi.spyOn(Date, 'now').mockReturnValue(atMs);

describe.each<[string, Level]>([
  ['MQTT 3.1.1', 4],
  ['MQTT 5', 5],
])('a second connection in %s', (_, level) => {
  it('takes over: the first is told so, the device stays online, and the events say it', async () => {
    const { device, client: first } = await connectNew({ level });
    const second = await DirectClient.connect(device, { level });
    if (level === 5) expect([...(await first.next()).body]).toEqual([0x8e, 0]);
    expect(await first.untilClosed()).toMatchObject({ code: 1008 });
    second.send(pingreq);
    expect((await second.next()).type).toBe(13);
    expect(await statusOf(device)).toMatchObject({ online: true });
    expect(await namesOfEvents(device)).toEqual(['online connected taken_over', 'online connected']);
  });

  it('ends in one session, however many come at once', async () => {
    const device = await provisionDevice();
    const clients = await Promise.all(Array.from({ length: 8 }, () => DirectClient.open(device.deviceId)));
    for (const client of clients) client.send(connectPacket(device, { level }), pingreq);
    await vi.waitFor(() => expect(clients.filter(({ end }) => end === undefined)).toHaveLength(1));
    const left = clients.find(({ end }) => end === undefined)!;
    expect([(await left.next()).type, (await left.next()).type]).toEqual([2, 13]);
    left.send(publishPacket(topicOf(device, propertyPost), '{"params":{"angle":1}}', { level, packetId: 1 }));
    expect((await left.next()).type).toBe(4);
    expect(await statusOf(device)).toMatchObject({ online: true });
  });

  it('with a wrong password leaves the first alone, and the owner sees it', async () => {
    const { device, client: first } = await connectNew({ level });
    await expect(DirectClient.connect(device, { level, password: 'tk_guess' })).rejects.toThrow('refused');
    first.send(pingreq);
    expect((await first.next()).type).toBe(13);
    expect(await namesOfEvents(device)).toEqual(['login_refused wrong_password', 'online connected']);
  });
});

describe('a will', () => {
  /** A device that has come online with a will, and a follower of its status. */
  async function connectWithWill(level: Level = 4) {
    const device = await provisionDevice();
    const topic = topicOf(device, status);
    const relay = await listenAs(device, topic);
    const will = { topic, payload: '{"status":"offline","time":1}' };
    const client = await DirectClient.connect(device, { level, will });
    expect(await relay.next()).toMatchObject({ payload: { status: 'online' } });
    return { device, topic, relay, client };
  }

  it('MQTT-3.1.2-8: is published when the connection breaks, and the service says nothing besides', async () => {
    const { device, topic, relay, client } = await connectWithWill();
    client.drop();
    expect(await relay.next()).toEqual({ topic, payload: { status: 'offline', time: 1 } });
    expect((await namesOfEvents(device))[0]).toBe('offline disconnected lost');
    expect(await relay.ask('{"action": "ping"}')).toEqual({ action: 'pong' });
  });

  it('MQTT-3.1.2-10: is not published after DISCONNECT; the service announces the end itself', async () => {
    const { relay, client } = await connectWithWill();
    client.send(disconnectPacket);
    const { payload } = (await relay.next()) as { payload: { status: string; time: number } };
    expect(payload.status).toBe('offline');
    expect(payload.time).toBeGreaterThan(1);
  });

  it('MQTT5-3.1.2-8: is published after DISCONNECT with another reason than 0', async () => {
    const { device, relay, client } = await connectWithWill(5);
    client.send(packet(0xe0, [4]));
    expect(await relay.next()).toMatchObject({ payload: { status: 'offline', time: 1 } });
    expect((await namesOfEvents(device))[0]).toBe('offline disconnected with_will');
  });

  it('of a session that is taken over comes before the word that the device is online', async () => {
    const { device, relay } = await connectWithWill();
    await DirectClient.connect(device);
    expect(await relay.next()).toMatchObject({ payload: { status: 'offline', time: 1 } });
    expect(await relay.next()).toMatchObject({ payload: { status: 'online' } });
    expect(await statusOf(device)).toMatchObject({ online: true });
  });

  it('outlives a sleep of the object', async () => {
    const { device, relay, client } = await connectWithWill();
    await evictDurableObject(sessionOf(device.deviceId));
    client.drop();
    expect(await relay.next()).toMatchObject({ payload: { status: 'offline', time: 1 } });
  });
});

describe('the keep-alive', () => {
  it('MQTT-3.1.2-24: ends the session exactly when it is asked for, one and a half periods after the last packet', async () => {
    const { device, client } = await connectNew({ keepAlive: 60 });
    const startMs = Date.now();
    atClock(startMs + 50_000);
    client.send(pingreq);
    await client.next();
    atClock(startMs + 139_999);
    expect(await statusOf(device)).toMatchObject({
      online: true,
      lastOnlineAt: new Date(startMs + 50_000).toISOString(),
    });
    atClock(startMs + 140_000);
    expect(await statusOf(device)).toMatchObject({
      online: false,
      lastOnlineAt: new Date(startMs + 50_000).toISOString(),
    });
    expect((await namesOfEvents(device))[0]).toBe('offline disconnected keep_alive');
    await client.untilClosed();
  });

  it('MQTT-3.1.2.10: of zero is none', async () => {
    const device = await provisionDevice();
    await DirectClient.connect(device, { keepAlive: 0 });
    atClock(Date.now() + 30 * 24 * 3_600_000);
    await runDurableObjectAlarm(sessionOf(device.deviceId));
    expect(await statusOf(device)).toMatchObject({ online: true });
  });
});

describe('a socket that the service lost', () => {
  /** As after a deployment or the end of the process: no handler of the close runs. */
  async function loseSession() {
    const device = await provisionDevice();
    const relay = await listenAs(device, topicOf(device, status));
    await DirectClient.connect(device);
    expect(await relay.next()).toMatchObject({ payload: { status: 'online' } });
    await evictDurableObject(sessionOf(device.deviceId), { webSockets: 'close' });
    return { device, relay };
  }

  it('leaves no false offline where the device comes back in time, and the events say why it connected again', async () => {
    const { device, relay } = await loseSession();
    expect(await statusOf(device)).toMatchObject({ online: true });
    await DirectClient.connect(device);
    expect(await namesOfEvents(device)).toEqual(['online connected deployed', 'online connected']);
    expect(await relay.ask('{"action": "ping"}')).toEqual({ action: 'pong' });
  });

  it('is noticed by the alarm where nobody asks', async () => {
    const { device, relay } = await loseSession();
    const startMs = Date.now();
    atClock(startMs + 300_000);
    await runDurableObjectAlarm(sessionOf(device.deviceId));
    atClock(startMs + 331_000);
    await runDurableObjectAlarm(sessionOf(device.deviceId));
    expect(await relay.next()).toMatchObject({ payload: { status: 'offline' } });
  });
});

describe('a session ends at once', () => {
  const disable = ({ deviceId }: TestDevice) =>
    sessionOf(deviceId).decide({ kind: 'administered', actor: owner, change: { isDisabled: true } });

  it.each<[string, (device: TestDevice) => Promise<unknown>, string, string[]]>([
    ['when the device is disabled', disable, 'refused', ['offline disconnected disabled', 'online connected']],
    [
      'with new credentials',
      async (device) => replacePassword(device, await digestOf('tk_new')),
      'refused',
      ['offline revoked', 'online connected'],
    ],
    [
      'when the device is deleted, which then is not there',
      ({ deviceId }) => sessionOf(deviceId).decide({ kind: 'deleted', actor: null }),
      '404',
      [],
    ],
  ])('%s, and the old password does not open another', async (_, change, refusal, events) => {
    const { device, client } = await connectNew({ level: 5 });
    await change(device);
    expect([...(await client.next()).body]).toEqual([0x87, 0]);
    expect(await client.untilClosed()).toMatchObject({ code: 1008 });
    await expect(DirectClient.connect(device)).rejects.toThrow(refusal);
    if (events.length > 0) expect(await namesOfEvents(device)).toEqual(expect.arrayContaining(events));
  });

  it('and what was sent behind has no effect', async () => {
    const { device, client } = await connectNew();
    const disabled = disable(device);
    client.send(publishPacket(topicOf(device, propertyPost), '{"params":{"position":"up"}}', { packetId: 1 }));
    await disabled;
    await client.untilClosed();
    const { position } = await statusOf(device);
    const isAcknowledged = client.unread.some(({ type }) => type === 4);
    expect(position).toBe(isAcknowledged ? 'up' : null);
  });
});

describe('a device that moves', () => {
  const connected = (sessionStartedAtMs: number) => ({ kind: 'connected', sessionStartedAtMs }) as const;

  it('from the broker to a direct connection is not taken offline by what the broker says of its old session', async () => {
    const device = await provisionDevice();
    const session = sessionOf(device.deviceId);
    const startedAtMs = Date.now() - 1_000;
    await session.decide({ kind: 'connection_reported', report: connected(startedAtMs) });
    await DirectClient.connect(device);
    const ended = { kind: 'disconnected', endedAtMs: Date.now() + 10, reason: 'tcp_closed' } as const;
    await session.decide({ kind: 'connection_reported', report: { ...ended, sessionStartedAtMs: startedAtMs } });
    await session.decide({ kind: 'connection_reported', report: { ...ended, sessionStartedAtMs: null } });
    await session.decide({
      kind: 'connection_reported',
      report: { kind: 'doubted', beforeMs: Date.now() + 10_000, confirmWithinMs: 0 },
    });
    expect(await statusOf(device)).toMatchObject({ online: true });
  });

  it('from the direct connection to a broker ends its session here, and stays online', async () => {
    const { device, client } = await connectNew({ level: 5 });
    await sessionOf(device.deviceId).decide({ kind: 'connection_reported', report: connected(Date.now() + 100) });
    expect([...(await client.next()).body]).toEqual([0x8e, 0]);
    await client.untilClosed();
    expect(await statusOf(device)).toMatchObject({ online: true });
  });
});
