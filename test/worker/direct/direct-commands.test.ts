// Commands to a directly connected device: when they are written, which outcome they have, and what a device that does not read costs.
import { evictDurableObject } from 'cloudflare:test';
import { expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import {
  disconnectPacket,
  connectNew,
  DirectClient,
  pingreq,
  pubackPacket,
  publishPacket,
  readPublish,
  subscribePacket,
} from '../rig/clients/direct.ts';
import { provisionDevice, sessionOf, type TestDevice } from '../rig/provision.ts';
import { directLimits } from '../../../src/domain/direct/direct-limits.ts';

const { propertyPost, propertySet } = topicActions;
const owner = inPerson(1);
const up = { action: 'toggle', position: 'up' } as const;
const down = { action: 'toggle', position: 'down' } as const;

const request = (params: typeof up | typeof down, ttlSeconds?: number) => ({
  params,
  ttlSeconds,
  waitSeconds: undefined,
  idempotencyKey: undefined,
});
const send = async ({ deviceId }: TestDevice, params: typeof up | typeof down = up, ttlSeconds?: number) =>
  sessionOf(deviceId).command(owner, request(params, ttlSeconds));
const commandsOf = async ({ deviceId }: TestDevice) => {
  const listed = await sessionOf(deviceId).listCommands(owner, { page: 1, size: 100 });
  if (!listed.ok) throw new Error(listed.refusal.kind);
  return listed.value.list;
};
/** Awaits SUBACK. */
async function subscribe(client: DirectClient, device: TestDevice, qos = 1): Promise<void> {
  client.send(subscribePacket(topicOf(device, propertySet), qos));
  expect((await client.next()).type).toBe(9);
}
const nextParams = async (client: DirectClient) => {
  const { packetId, payload } = readPublish(await client.next());
  return { packetId, ...(JSON.parse(payload) as { id: string; params: object }) };
};

it('reaches nobody at once where the device is connected and has not subscribed', async () => {
  const device = await provisionDevice();
  await DirectClient.connect(device);
  expect(await send(device)).toMatchObject({ ok: true, value: { deviceOnline: true } });
  expect(await commandsOf(device)).toMatchObject([{ state: 'undelivered', reason: 'no_subscriber' }]);
});

it('that is queued goes out at SUBSCRIBE, behind SUBACK, the newest alone', async () => {
  const device = await provisionDevice();
  const early = await DirectClient.connect(device);
  await send(device, up, 60);
  await send(device, down, 60);
  early.send(disconnectPacket);
  await early.untilClosed();
  expect((await commandsOf(device))[0]).toMatchObject({ state: 'waiting' });
  const client = await DirectClient.connect(device);
  await subscribe(client, device);
  const { packetId, params, id } = await nextParams(client);
  expect(params).toEqual(down);
  client.send(pubackPacket(packetId));
  client.send(publishPacket(topicOf(device, propertyPost), replyOf(id)), pingreq);
  expect((await client.next()).type).toBe(13);
  expect(await commandsOf(device)).toMatchObject([
    { state: 'acknowledged', kept: true },
    { state: 'cancelled', reason: 'replaced' },
  ]);
});

it('that is queued is written again in the next session until the device replied, not in the same one', async () => {
  const { device, client: first } = await connectNew();
  await subscribe(first, device);
  await send(device, up, 600);
  const { packetId, id } = await nextParams(first);
  first.send(pubackPacket(packetId), pingreq);
  await first.next();
  expect(await commandsOf(device)).toMatchObject([
    { state: 'sent', steps: { deliveredAt: expect.any(Number) as number } },
  ]);
  const second = await DirectClient.connect(device);
  await subscribe(second, device);
  expect(await nextParams(second)).toMatchObject({ id, params: up });
});

it('is refused where the device acknowledges nothing, and served again once it does', async () => {
  const { device, client } = await connectNew();
  await subscribe(client, device);
  for (let number = 0; number < directLimits.inFlight; number++) expect((await send(device)).ok).toBe(true);
  expect(await send(device)).toMatchObject({ ok: false, refusal: { kind: 'not_published', because: 'device_busy' } });
  // Field note 43: what the device says is taken meanwhile.
  client.send(publishPacket(topicOf(device, propertyPost), '{"params":{"angle":1}}', { packetId: 900 }));
  const { packetId } = await nextParams(client);
  let last = await client.next();
  while (last.type === 3) last = await client.next();
  expect([last.type, ...last.body]).toEqual([4, 900 >> 8, 900 & 255]);
  client.send(pubackPacket(packetId), pubackPacket(packetId), pubackPacket(60_000), pingreq);
  expect((await client.next()).type).toBe(13);
  expect((await send(device)).ok).toBe(true);
});

it('MQTT5-3.3.4-9: stays within the receive maximum of the device, and within its packet size', async () => {
  const device = await provisionDevice();
  const one = await DirectClient.connect(device, { level: 5, properties: [0x21, 0, 1] });
  one.send(subscribePacket(topicOf(device, propertySet), 1, { level: 5 }));
  await one.next();
  expect((await send(device)).ok).toBe(true);
  expect(await send(device)).toMatchObject({ ok: false });
  const other = await provisionDevice();
  const small = await DirectClient.connect(other, { level: 5, properties: [0x27, 0, 0, 0, 100] });
  small.send(subscribePacket(topicOf(other, propertySet), 1, { level: 5 }));
  await small.next();
  expect(await send(other)).toMatchObject({ ok: false, refusal: { because: 'device_busy' } });
  small.send(pingreq);
  expect((await small.next()).type).toBe(13);
});

it('with QoS 0 is written until the device has not shown for too long that it reads', async () => {
  const { device, client } = await connectNew();
  await subscribe(client, device, 0);
  const payloadBytes = async () => {
    expect((await send(device)).ok).toBe(true);
    const packet = await client.next();
    return { bytes: packet.body.length + 3, id: (JSON.parse(readPublish(packet).payload) as { id: string }).id };
  };
  const first = await payloadBytes();
  client.send(publishPacket(topicOf(device, propertyPost), replyOf(first.id)), pingreq);
  await client.next();
  const fitting = Math.floor(directLimits.unreadBytes / first.bytes);
  for (let number = 0; number < fitting; number++) await payloadBytes();
  expect(await send(device)).toMatchObject({ ok: false });
  expect(await client.untilClosed()).toMatchObject({ reason: 'too_much_unread' });
});

it('keeps its packet id over a sleep of the object', async () => {
  const { device, client } = await connectNew();
  await subscribe(client, device);
  await send(device);
  const { packetId } = await nextParams(client);
  await evictDurableObject(sessionOf(device.deviceId));
  client.send(pubackPacket(packetId), pingreq);
  await client.next();
  const [command] = await commandsOf(device);
  expect(command?.steps.deliveredAt).toBeGreaterThan(0);
  await send(device);
  expect((await nextParams(client)).packetId).not.toBe(packetId);
});

function replyOf(id: string): string {
  return JSON.stringify({ method: 'thing.service.property.set_reply', id, code: 200 });
}
