// What ends a direct connection or is refused on it, sent as raw bytes, with the clause that says so.
import { describe, expect, it } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { encodeConnack } from '../../../src/protocol/mqtt-codec/server-packets.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { readConfig } from '../../../src/config.ts';
import { env } from 'cloudflare:workers';
import {
  connectNew,
  connectPacket,
  DirectClient,
  packet,
  pingreq,
  publishPacket,
  readPublish,
  subscribePacket,
  text,
  type ConnectOptions,
  type Level,
} from '../rig/clients/direct.ts';
import { send } from '../rig/clients/client.ts';
import { eventsOf, provisionDevice, type TestDevice } from '../rig/provision.ts';
import { directLimits } from '../../../src/domain/direct/direct-limits.ts';

const { limits } = readConfig(env);
const { propertyPost, propertySet, status } = topicActions;
const levels: [string, Level][] = [
  ['MQTT 3.1.1', 4],
  ['MQTT 5', 5],
];

/** The DISCONNECT of MQTT 5, or that MQTT 3.1.1 has none; then the close. */
async function endOf(client: DirectClient, level: Level) {
  let reason: number | undefined;
  if (level === 5) {
    const { type, body } = await client.next();
    expect(type).toBe(14);
    reason = body[0];
  }
  const { code } = await client.untilClosed();
  return { reason, code, unread: client.unread.length };
}

/** A connection to a device that exists, on which nothing was sent. */
async function open(): Promise<{ device: TestDevice; client: DirectClient }> {
  const device = await provisionDevice();
  return { device, client: await DirectClient.open(device.deviceId) };
}

describe('the upgrade', () => {
  const upgrade = (path: string, headers = {}) => send('GET', path, { headers: { Upgrade: 'websocket', ...headers } });

  it('is refused for a device that is not there, and for a name that no device can have', async () => {
    for (const deviceId of ['dev_00000000', 'nobody', 'dev_%00', 'relay-0']) {
      const refused = await upgrade(`/mqtt/${deviceId}`);
      expect(refused.status).toBe(404);
      expect(await refused.json()).toEqual({ code: 404, message: 'device_not_found', data: null });
    }
  });

  it('answers 400 to a request that is none, and to one for another sub-protocol', async () => {
    const { deviceId } = await provisionDevice();
    expect((await send('GET', `/mqtt/${deviceId}`)).status).toBe(400);
    expect((await upgrade(`/mqtt/${deviceId}`, { 'Sec-WebSocket-Protocol': 'chat' })).status).toBe(400);
  });

  it('MQTT-6.0.0-3, MQTT-6.0.0-4: names the sub-protocol where the client asked for it', async () => {
    const { deviceId } = await provisionDevice();
    const asked = await upgrade(`/mqtt/${deviceId}`, { 'Sec-WebSocket-Protocol': 'mqttv3.1, mqtt' });
    expect([asked.status, asked.headers.get('Sec-WebSocket-Protocol')]).toEqual([101, 'mqttv3.1']);
    expect((await upgrade(`/mqtt/${deviceId}`)).headers.get('Sec-WebSocket-Protocol')).toBeNull();
  });
});

describe('before CONNECT', () => {
  const connectOf = (first: number, name: string, level: number) =>
    packet(first, [...text(name), level, 2, 0, 60, ...text('a')]);

  it.each<[string, Uint8Array, number[] | null, number]>([
    ['MQTT-3.1.0-1: another packet first', pingreq, null, 1002],
    ['MQTT-2.2.2-2: reserved bits of the header', connectOf(0x11, 'MQTT', 4), null, 1002],
    ['decision: direct: a CONNECT of more than 1 KiB', packet(0x10, new Uint8Array(1_100)), null, 1009],
    ['no MQTT at all', new TextEncoder().encode('GET / HTTP/1.1\r\n\r\n'), null, 1002],
    ['MQTT-3.1.2-2, field note 37: MQTT 3.1', connectOf(0x10, 'MQIsdp', 3), [0, 1], 1008],
    ['MQTT-3.1.2-2: a level before 3.1.1', connectOf(0x10, 'MQTT', 2), [0, 1], 1008],
    ['MQTT5-3.1.2-2: a level after 5', connectOf(0x10, 'MQTT', 6), [0, 0x84, 0], 1008],
  ])('%s closes the connection with the answer that it has', async (_, bytes, answer, code) => {
    const { client } = await open();
    client.send(bytes);
    if (answer !== null) expect([...(await client.next()).body]).toEqual(answer);
    expect(await client.untilClosed()).toMatchObject({ code });
    expect(client.unread).toEqual([]);
  });

  it('MQTT-6.0.0-1: a text frame closes the connection', async () => {
    const { client } = await open();
    client.sendText('{"action":"auth"}');
    expect(await client.untilClosed()).toMatchObject({ code: 1003 });
  });

  it('the oldest of too many silent connections is closed', async () => {
    const { deviceId } = await provisionDevice();
    const silent = [];
    for (let number = 0; number <= directLimits.unconnectedPerDevice; number++)
      silent.push(await DirectClient.open(deviceId));
    expect(await silent[0]!.untilClosed()).toMatchObject({ code: 1013 });
    expect(silent.slice(1).map(({ end }) => end)).toEqual(silent.slice(1).map(() => undefined));
  });
});

describe.each(levels)('CONNECT in %s', (_, level) => {
  const named = (name: string) => ({ username: name, clientId: name });
  const willOn = (topic: string) => ({ will: { topic, payload: '{}' } });

  const refusals: [string, (device: TestDevice) => ConnectOptions, number, number][] = [
    ['contract 5 rule 4: another client identifier', () => ({ clientId: 'app-1' }), 2, 0x85],
    ['MQTT-3.1.3-8: no client identifier', () => ({ clientId: '' }), 2, 0x85],
    ['contract 5 rule 4: another password', () => ({ password: 'tk_guess' }), 4, 0x86],
    ['field note 41: the device secret as password', () => ({ password: 'sk_of-the-device' }), 4, 0x86],
    ['field note 41: no credentials', () => ({ username: undefined, password: undefined }), 4, 0x86],
    ['field note 41: no password', () => ({ password: undefined }), 4, 0x86],
    ['field note 41: a fixed internal name', () => ({ username: 'latchwork-bridge' }), 4, 0x86],
    ['another product', ({ deviceId }) => named(`other&${deviceId}`), 4, 0x86],
    ['another device than the one of the path', ({ productKey }) => named(`${productKey}&dev_00000000`), 4, 0x86],
    ['a will on the topic of another device', () => willOn('/sys/switch/dev_00000000/status'), 5, 0x87],
    ['a will that is a report', (device) => willOn(topicOf(device, propertyPost)), 5, 0x87],
  ];

  it.each(refusals)('%s is refused', async (_, options, code4, code5) => {
    const { device, client } = await open();
    client.send(connectPacket(device, { level, ...options(device) }));
    const { type, body } = await client.next();
    expect([type, ...body]).toEqual(level === 5 ? [2, 0, code5, 0] : [2, 0, code4]);
    await client.untilClosed();
  });

  it('MQTT-3.1.0-2: a second CONNECT ends the session', async () => {
    const { device, client } = await connectNew({ level });
    client.send(connectPacket(device, { level }));
    expect(await endOf(client, level)).toEqual({ reason: level === 5 ? 0x82 : undefined, code: 1002, unread: 0 });
  });

  it('with packets behind it is answered, and so are they', async () => {
    const { device, client } = await open();
    client.send(connectPacket(device, { level }), subscribePacket(topicOf(device, status), 0, { level }), pingreq);
    expect([(await client.next()).type, (await client.next()).type, (await client.next()).type]).toEqual([2, 9, 13]);
  });
});

describe('CONNECT in MQTT 5', () => {
  const authMethod = [0x15, ...text('SCRAM-SHA-1')];
  it.each<[string, ConnectOptions, number]>([
    ['MQTT5-3.2.2-12: a will with QoS 2', { will: { topic: '', payload: '{}', qos: 2 } }, 0x9b],
    ['MQTT5-3.2.2-13: a retained will', { will: { topic: '', payload: '{}', retain: true } }, 0x9a],
    ['MQTT5-4.12.0-1: an authentication method', { properties: authMethod }, 0x8c],
  ])('%s is refused', async (_, options, code) => {
    const device = await provisionDevice();
    const will = options.will && { will: { ...options.will, topic: topicOf(device, status) } };
    const client = await DirectClient.open(device.deviceId);
    client.send(connectPacket(device, { level: 5, ...options, ...will }));
    expect([...(await client.next()).body]).toEqual([0, code, 0]);
    await client.untilClosed();
  });

  it('MQTT5-3.2.2-2: is told what the service does not serve', async () => {
    const { device, client } = await open();
    client.send(connectPacket(device, { level: 5 }));
    const served = { maxPacketBytes: limits.directPacketBytes, receiveMaximum: directLimits.receiveMaximum };
    expect((await client.next()).body).toEqual(encodeConnack(5, 0, served).subarray(2));
  });
});

describe.each(levels)('a session in %s ends', (_, level) => {
  const foreign = '/sys/switch/dev_00000000/thing/event/property/post';
  const qos2 = (device: TestDevice) =>
    packet(0x34, [...text(topicOf(device, propertyPost)), 0, 1, ...(level === 5 ? [0] : [])]);
  it.each<[string, (device: TestDevice) => Uint8Array, number, number]>([
    ['MQTT5-3.2.2-11: with a PUBLISH of QoS 2', qos2, 0x9b, 1008],
    ['MQTT-3.3.5-2: with a PUBLISH to another device', () => publishPacket(foreign, '{}', { level }), 0x87, 1008],
    [
      'MQTT-3.3.5-2: with a PUBLISH to its own command topic',
      (device) => publishPacket(topicOf(device, propertySet), '{}', { level }),
      0x87,
      1008,
    ],
    ['MQTT-3.3.2-2: with a wildcard in a topic', () => publishPacket('/sys/+/x/status', '{}', { level }), 0x90, 1008],
    ['MQTT-4.7.3-1: with an empty topic', () => publishPacket('', '{}', { level }), 0x90, 1008],
    ['MQTT-2.2.2-2: with reserved bits', () => packet(0xc4, []), 0x81, 1002],
    ['with PUBREL', () => packet(0x62, [0, 1]), 0x82, 1002],
    ['MQTT5-3.1.2-24: with a packet that is too large', () => new Uint8Array([0x30, 0x81, 0x80, 0x04]), 0x95, 1009],
  ])('%s', async (_, bytesOf, reason, code) => {
    const { device, client } = await connectNew({ level });
    const good = publishPacket(topicOf(device, propertyPost), '{"params":{"angle":7}}', { level, packetId: 5 });
    client.send(good, bytesOf(device), pingreq);
    // What came before counts, what came behind does not.
    expect((await client.next()).type).toBe(4);
    expect(await endOf(client, level)).toEqual({ reason: level === 5 ? reason : undefined, code, unread: 0 });
  });

  it('MQTT-6.0.0-1: with a text frame', async () => {
    const { client } = await connectNew({ level });
    client.sendText('hello');
    expect(await endOf(client, level)).toMatchObject({ code: 1003 });
  });
});

it.each<[string, (device: TestDevice) => Uint8Array, number]>([
  [
    'MQTT5-3.3.2-8: with a topic alias',
    (device) => packet(0x30, [...text(topicOf(device, propertyPost)), 3, 0x23, 0, 1]),
    0x94,
  ],
  [
    'MQTT5-3.2.2-14: with a retained message',
    (device) => publishPacket(topicOf(device, status), '{}', { level: 5, retain: true }),
    0x9a,
  ],
  [
    'MQTT5 3.8.2.1.2: with a subscription identifier',
    (device) => packet(0x82, [0, 1, 2, 0x0b, 1, ...text(topicOf(device, status)), 0]),
    0xa1,
  ],
  ['MQTT5-3.1.2-23: with an expiry that CONNECT did not have', () => packet(0xe0, [0, 5, 0x11, 0, 0, 0, 9]), 0x82],
  ['with AUTH', () => packet(0xf0, []), 0x82],
  [
    'MQTT5-3.3.4-7: with more than the receive maximum at once',
    (device) => {
      const ids = Array.from({ length: directLimits.receiveMaximum + 1 }, (_, index) => index + 1);
      const topic = topicOf(device, propertyPost);
      return Uint8Array.from(ids.flatMap((packetId) => [...publishPacket(topic, '{}', { level: 5, packetId })]));
    },
    0x93,
  ],
])('a session in MQTT 5 ends %s', async (_, bytesOf, reason) => {
  const { device, client } = await connectNew({ level: 5 });
  client.send(bytesOf(device));
  let last = await client.next();
  while (last.type === 4) last = await client.next();
  expect([last.type, last.body[0]]).toEqual([14, reason]);
  await client.untilClosed();
});

describe.each(levels)('SUBSCRIBE in %s', (_, level) => {
  const ask = async (client: DirectClient, filter: string, qos: number) => {
    client.send(subscribePacket(filter, qos, { level, packetId: 77 }));
    const { type, body } = await client.next();
    expect(type).toBe(9);
    return body.at(-1);
  };

  it('is granted inside the own topics, at most QoS 1', async () => {
    const { device, client } = await connectNew({ level });
    const own = `/sys/switch/${device.deviceId}`;
    expect(await ask(client, `${own}/#`, 2)).toBe(1);
    expect(await ask(client, topicOf(device, propertySet), 0)).toBe(0);
    expect(await ask(client, `${own}/+`, 1)).toBe(1);
  });

  it('field note 42: is refused outside, filter by filter, and the session goes on', async () => {
    const { device, client } = await connectNew({ level });
    const refused = (code: number) => (level === 5 ? code : 0x80);
    expect(await ask(client, '#', 0)).toBe(refused(0x87));
    expect(await ask(client, '/sys/switch/+/status', 0)).toBe(refused(0x87));
    expect(await ask(client, '$SYS/#', 0)).toBe(refused(0x87));
    expect(await ask(client, `$share/group/${topicOf(device, status)}`, 0)).toBe(refused(0x9e));
    expect(await ask(client, '/sys/#/x', 0)).toBe(refused(0x8f));
    expect(await ask(client, '', 0)).toBe(refused(0x8f));
    client.send(pingreq);
    expect((await client.next()).type).toBe(13);
  });

  it('is refused beyond the limit of a session', async () => {
    const { device, client } = await connectNew({ level });
    const filter = (number: number) => `/sys/switch/${device.deviceId}/x/${number}`;
    for (let number = 0; number < directLimits.subscriptions; number++)
      expect(await ask(client, filter(number), 0)).toBe(0);
    expect(await ask(client, filter(99), 0)).toBe(level === 5 ? 0x97 : 0x80);
    expect(await ask(client, filter(0), 1)).toBe(1);
  });

  it('of long filters is refused where its socket could not keep them in a sleep', async () => {
    const { device, client } = await connectNew({ level });
    const filter = (number: number) => `/sys/switch/${device.deviceId}/${'ü'.repeat(210)}${number}`.slice(0, 256);
    const codes = [];
    for (let number = 10; number < 28; number++) codes.push(await ask(client, filter(number), 0));
    expect(codes.filter((code) => code === 0).length).toBeGreaterThan(15);
    expect(codes.at(-1)).toBe(level === 5 ? 0x97 : 0x80);
  });

  it('delivers what the device says itself, once, and UNSUBSCRIBE ends that', async () => {
    const { device, client } = await connectNew({ level });
    const topic = topicOf(device, propertyPost);
    await ask(client, `/sys/switch/${device.deviceId}/#`, 1);
    await ask(client, topic, 0);
    client.send(publishPacket(topic, '{"params":{"angle":3}}', { level }));
    expect(readPublish(await client.next(), level)).toMatchObject({ topic, payload: '{"params":{"angle":3}}' });
    const filters = [...text(topic), ...text(`/sys/switch/${device.deviceId}/#`), ...text('none')];
    client.send(packet(0xa2, [0, 3, ...(level === 5 ? [0] : []), ...filters]));
    expect([...(await client.next()).body]).toEqual(level === 5 ? [0, 3, 0, 0, 0, 0x11] : [0, 3]);
    client.send(publishPacket(topic, '{"params":{"angle":4}}', { level }), pingreq);
    expect((await client.next()).type).toBe(13);
  });
});

describe.each(levels)('a publish in %s that is not used is an event with its reason and topic', (_, level) => {
  const foreign = '/sys/switch/dev_00000000/status';
  it.each<[string, string | undefined, string | Uint8Array, boolean]>([
    ['retained', propertyPost, '{}', true],
    ['wrong_topic', undefined, '{}', false],
    ['too_large', propertyPost, 'x'.repeat(20_000), false],
    ['not_text', propertyPost, new Uint8Array([0xff, 0xfe]), false],
    ['not_json', propertyPost, 'hello', false],
  ])('%s', async (reason, action, payload, retain) => {
    const { device, client } = await connectNew({ level });
    const topic = action === undefined ? foreign : topicOf(device, propertyPost);
    client.send(publishPacket(topic, payload, { level, packetId: 8, retain }));
    const endsSession = retain || action === undefined;
    if (endsSession) {
      const why = retain ? 'retain_not_supported' : 'topic_forbidden';
      expect(await client.untilClosed()).toEqual({ code: 1008, reason: why });
    } else {
      expect([...(await client.next()).body]).toEqual(level === 5 ? [0, 8, 0x99] : [0, 8]);
      client.send(pingreq);
      expect((await client.next()).type).toBe(13);
    }
    const list = (await eventsOf(device)).filter(({ status: kind }) => kind === 'message_rejected');
    expect(list).toMatchObject([{ reason, detail: endsSession ? topic : action, count: 1 }]);
  });
});

it('a message beyond the limit of messages has no effect: the owner sees that there were too many', async () => {
  const { device, client } = await connectNew({ level: 5 });
  const topic = topicOf(device, propertyPost);
  const codes = [];
  for (let batch = 0; batch < 13; batch++) {
    const ids = Array.from({ length: 50 }, (_, index) => index + 1);
    client.send(...ids.map((packetId) => publishPacket(topic, '{"params":{"angle":1}}', { level: 5, packetId })));
    for (let left = ids.length; left > 0; left--) codes.push((await client.next()).body[2] ?? 0);
  }
  expect(codes.slice(0, limits.deviceMessagesPerMinute).every((code) => code === 0)).toBe(true);
  expect(codes.at(-1)).toBe(0x97);
  expect((await eventsOf(device)).map((event) => event.status)).toContain('flooded');
});
