// A device's MQTT session in its own object: what it says has its effect, commands reach it, and its presence is exact.
import { evictDurableObject } from 'cloudflare:test';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { call, createUser, makeDevice, type TestUser } from '../rig/clients/client.ts';
import { TestBridge } from '../rig/clients/bridge.ts';
import {
  disconnectPacket,
  DirectClient,
  pingreq,
  pubackPacket,
  publishPacket,
  readPublish,
  subscribePacket,
  type Level,
} from '../rig/clients/direct.ts';
import { sessionOf, type TestDevice } from '../rig/provision.ts';

const { propertyPost, propertySet, propertySetReply } = topicActions;

let owner: TestUser;
let bridge: TestBridge;
beforeAll(async () => {
  [bridge, owner] = await Promise.all([TestBridge.dialIn(), createUser()]);
});
afterAll(() => bridge.close());

const activate = () => makeDevice(owner, { controlMode: 'toggle' });

async function read<T>({ deviceId }: TestDevice, path: string): Promise<T> {
  return (await call<T>('GET', `/devices/${deviceId}${path}`, { token: owner.token })).data;
}
type Status = { online: boolean; position: string | null; lastOnlineAt: string };
const statusOf = (device: TestDevice) => read<Status>(device, '/status');
type Event = { status: string; reason: string; detail: string };
const eventsOf = async (device: TestDevice) =>
  (await read<{ list: Event[] }>(device, '/events')).list
    .filter(({ status }) => status !== 'activated')
    .map(({ status, reason, detail }) => [status, reason, detail]);
const control = (device: TestDevice, body: unknown, query = '') =>
  call<{ commandId: string; deviceOnline: boolean }>('POST', `/devices/${device.deviceId}/control${query}`, {
    token: owner.token,
    body,
  });
type Command = { state: string; reason: string | null; steps: Record<string, number | null> };
const up = { action: 'toggle', position: 'up' };
const reportOf = (position: string) => JSON.stringify({ params: { position } });

describe.each<[string, Level]>([
  ['MQTT 3.1.1', 4],
  ['MQTT 5', 5],
])('a session in %s', (_, level) => {
  it('answers PINGREQ, takes a report with QoS 0 and acknowledges one with QoS 1 once it is written', async () => {
    const device = await activate();
    const client = await DirectClient.connect(device, { level });
    const topic = topicOf(device, propertyPost);
    client.send(publishPacket(topic, reportOf('up'), { level }), pingreq);
    expect((await client.next()).type).toBe(13);
    expect(await statusOf(device)).toMatchObject({ position: 'up' });
    client.send(publishPacket(topic, reportOf('down'), { level, packetId: 700 }));
    expect(await client.next()).toMatchObject({ type: 4, body: new Uint8Array([700 >> 8, 700 & 255]) });
    expect(await statusOf(device)).toMatchObject({ position: 'down' });
  });

  it('brings a command down, and its PUBACK is a step of the command', async () => {
    const device = await activate();
    const client = await DirectClient.connect(device, { level });
    const topic = topicOf(device, propertySet);
    client.send(subscribePacket(topic, 1, { level, packetId: 9 }));
    expect([...(await client.next()).body]).toEqual(level === 5 ? [0, 9, 0, 1] : [0, 9, 1]);
    const sent = await control(device, up);
    expect(sent).toMatchObject({ code: 200, data: { message: 'command_sent', deviceOnline: true } });
    const command = readPublish(await client.next(), level);
    expect(command).toMatchObject({ topic, flags: 2 });
    expect(JSON.parse(command.payload)).toMatchObject({ id: sent.data.commandId, params: up });
    const path = `/commands/${sent.data.commandId}`;
    expect(await read<Command>(device, path)).toMatchObject({ state: 'sent', steps: { deliveredAt: null } });
    client.send(pubackPacket(command.packetId), pingreq);
    await client.next();
    const { steps } = await read<Command>(device, path);
    expect(steps.deliveredAt).toBeGreaterThanOrEqual(steps.published ?? Infinity);
    const answer = JSON.stringify({ method: 'thing.service.property.set_reply', id: sent.data.commandId, code: 200 });
    client.send(publishPacket(topicOf(device, propertySetReply), answer, { level, packetId: 3 }));
    await client.next();
    expect(await read<Command>(device, path)).toMatchObject({ state: 'acknowledged' });
  });

  it('ends cleanly with DISCONNECT', async () => {
    const device = await activate();
    const client = await DirectClient.connect(device, { level });
    client.send(disconnectPacket);
    await client.untilClosed();
    expect(await statusOf(device)).toMatchObject({ online: false });
    expect((await eventsOf(device))[0]).toEqual(['offline', 'disconnected', 'clean']);
  });

  it('goes on after the object slept', async () => {
    const device = await activate();
    const client = await DirectClient.connect(device, { level });
    client.send(subscribePacket(topicOf(device, propertySet), 1, { level }));
    await client.next();
    await evictDurableObject(sessionOf(device.deviceId));
    client.send(pingreq);
    expect((await client.next()).type).toBe(13);
    await evictDurableObject(sessionOf(device.deviceId));
    await control(device, up);
    expect(readPublish(await client.next(), level).topic).toBe(topicOf(device, propertySet));
    expect(await statusOf(device)).toMatchObject({ online: true });
  });
});
