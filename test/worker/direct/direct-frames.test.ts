// Packets and frames on a direct connection need not fit each other: cut at any byte, gathered, and asleep in between.
import fc from 'fast-check';
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import type { PropertiesView } from '../../../src/domain/device/core/views.ts';
import type { Outcome } from '../../../src/domain/refusal.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';
import {
  connectPacket,
  disconnectPacket,
  connectNew,
  DirectClient,
  pingreq,
  pubackPacket,
  publishPacket,
  subscribePacket,
  unsubscribePacket,
} from '../rig/clients/direct.ts';
import { eventsOf, provisionDevice, sessionOf, type TestDevice } from '../rig/provision.ts';
import { listenAs } from '../rig/clients/relay.ts';
import { directLimits } from '../../../src/domain/direct/direct-limits.ts';

const { propertyPost, status } = topicActions;

const report = (device: TestDevice, angle: number, packetId: number) =>
  publishPacket(topicOf(device, propertyPost), JSON.stringify({ params: { angle } }), { packetId });
/** Any call does. */
const wake = ({ deviceId }: TestDevice) => sessionOf(deviceId).status(inPerson(1));
const sleep = ({ deviceId }: TestDevice) => evictDurableObject(sessionOf(deviceId));

async function angleOf({ deviceId }: TestDevice) {
  const view = (await sessionOf(deviceId).properties(inPerson(1))) as Outcome<PropertiesView>;
  return view.ok ? view.value.list.find(({ name }) => name === 'angle')?.value : view.refusal;
}

const joined = (...packets: Uint8Array[]) => Uint8Array.from(packets.flatMap((one) => [...one]));

describe('a stream of packets', () => {
  it('is served when it is cut at any byte while the object is to sleep: an unfinished packet keeps it awake', async () => {
    const { device, client } = await connectNew();
    const bytes = joined(subscribePacket(topicOf(device, status), 0), report(device, 1, 1), pingreq);
    for (let cut = 1; cut < bytes.length; cut += 1) {
      client.send(bytes.subarray(0, cut));
      await wake(device);
      const asleep = sleep(device);
      client.send(bytes.subarray(cut));
      expect([(await client.next()).type, (await client.next()).type, (await client.next()).type]).toEqual([9, 4, 13]);
      await asleep;
    }
    expect(client.end).toBeUndefined();
  });

  it('is served when CONNECT is cut while the object is to sleep', async () => {
    const device = await provisionDevice();
    const client = await DirectClient.open(device.deviceId);
    const bytes = connectPacket(device);
    client.send(bytes.subarray(0, 20));
    await wake(device);
    const asleep = sleep(device);
    client.send(bytes.subarray(20));
    expect([...(await client.next()).body]).toEqual([0, 0]);
    await asleep;
    client.send(pingreq);
    expect((await client.next()).type).toBe(13);
  });

  it('is served with a sleep between any two packets, and behind CONNECT and before DISCONNECT', async () => {
    const { device, client } = await connectNew();
    const topic = topicOf(device, status);
    let angle = 0;
    const send = {
      s: () => [subscribePacket(topic, 0), 9] as const,
      u: () => [unsubscribePacket(topic), 11] as const,
      p: () => [pingreq, 13] as const,
      r: () => [report(device, (angle += 1), angle), 4] as const,
    };
    // Each kind behind each kind.
    for (const kind of 'ssuspsruupurpprrs' as Iterable<keyof typeof send>) {
      await sleep(device);
      const [one, type] = send[kind]();
      client.send(one);
      expect((await client.next()).type).toBe(type);
    }
    expect(await angleOf(device)).toBe(angle);
    await sleep(device);
    client.send(disconnectPacket);
    await client.untilClosed();
    expect((await eventsOf(device))[0]).toMatchObject({ detail: 'clean' });
  });

  it('is answered for each packet, however many come at once, in their order', async () => {
    const { device, client } = await connectNew();
    const ids = Array.from({ length: 300 }, (_, index) => index + 1);
    client.send(...ids.map((id) => report(device, id, id)));
    for (const id of ids) {
      const { type, body } = await client.next();
      expect([type, body[0]! * 256 + body[1]!]).toEqual([4, id]);
    }
    expect(await angleOf(device)).toBe(300);
  });

  it('is pushed to followers as JSON where it is, and as a string where it is not', async () => {
    const device = await provisionDevice();
    const relay = await listenAs(device, topicOf(device, propertyPost));
    const client = await DirectClient.connect(device);
    const texts = ['{"params":{"angle":1}}', 'not JSON', '[1]', '{"params":{"angle":2}}'];
    client.send(
      ...texts.map((text, index) => publishPacket(topicOf(device, propertyPost), text, { packetId: index + 1 })),
    );
    const payloads = [{ params: { angle: 1 } }, 'not JSON', [1], { params: { angle: 2 } }];
    for (const payload of payloads) expect(await relay.next()).toMatchObject({ payload });
  });
});

it('time ends a connection that sends no CONNECT, and a session that does not finish a packet', async () => {
  const [silent, slow] = await Promise.all([provisionDevice(), provisionDevice()]);
  const { connectMs } = directLimits;
  Object.assign(directLimits, { connectMs: 500 });
  const [one, other] = [await DirectClient.open(silent.deviceId), await DirectClient.connect(slow, { level: 5 })];
  other.send(publishPacket(topicOf(slow, propertyPost), '{}', { level: 5 }).subarray(0, 10));
  expect(await one.untilClosed()).toEqual({ code: 1008, reason: 'CONNECT not received in time' });
  expect((await other.next()).body[0]).toBe(0x81);
  expect(await other.untilClosed()).toEqual({ code: 1002, reason: 'packet_unfinished' });
  Object.assign(directLimits, { connectMs });
});

const connections = 30;
const packetsEach = 100;

it('malformed packets end their connections with a reason or are waited for, and harm nothing', async () => {
  const device = await provisionDevice();
  const login = connectPacket(device);
  const whole = fc.constantFrom(
    report(device, 1, 1),
    publishPacket(topicOf(device, status), '{"status":"online"}'),
    subscribePacket(topicOf(device, status)),
    pubackPacket(1),
    pingreq,
  );
  const malformed = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 80 }),
    fc.tuple(whole, fc.nat(), fc.nat({ max: 255 })).map(([bytes, at, byte]) => bytes.with(at % bytes.length, byte)),
    fc.tuple(whole, fc.nat()).map(([bytes, cut]) => bytes.subarray(0, cut % bytes.length)),
  );
  const streams = fc.array(malformed, { minLength: packetsEach, maxLength: packetsEach });
  const codes = new Set<number | undefined>();
  for (const [index, packets] of fc.sample(streams, { numRuns: connections, seed: fuzzSeed }).entries()) {
    const client = await DirectClient.open(device.deviceId);
    // Every tenth comes before the session has begun.
    client.send(...(index % 10 === 0 ? [] : [login]), ...packets);
    client.drop();
    codes.add((await client.untilClosed()).code);
  }
  expect([...codes].filter((code) => ![1000, 1002, 1003, 1008, 1009].includes(code ?? 0))).toEqual([]);
  expect(codes).toContain(1002);
  const client = await DirectClient.connect(device);
  client.send(report(device, 9, 1));
  expect((await client.next()).type).toBe(4);
  expect(await angleOf(device)).toBe(9);
});
