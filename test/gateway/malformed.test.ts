// Ten thousand malformed packets from outside, half of them over WebSocket and half through the gateway, sent behind a good
// CONNECT without awaiting its answer, or in its place. The Worker and the gateway are the real ones.
import { connect } from 'node:net';
import fc from 'fast-check';
import { generate, type Packet } from 'mqtt-packet';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { PacketReader } from '../../src/protocol/mqtt-codec/packet-reader.ts';
import type { Activation } from '../../rig/clients/accounts.ts';
import { eventually } from '../../rig/changes.ts';
import { EdgeService } from '../../rig/services/edge-service.ts';
import { fuzzSeed } from '../../rig/inputs/fuzzing.ts';
import { malformedPackets } from '../../rig/inputs/malformed-packets.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';

const connections = 400;
const packetsEach = 25;
const atOnce = 10;

let service: EdgeService;

beforeAll(async () => {
  service = await EdgeService.start({}, { MAX_UNAUTHENTICATED_PER_ADDRESS: '1000' });
});
afterAll(() => service.stop());

const bytesOf = (packet: Packet): Uint8Array => new Uint8Array(generate(packet));

function login({ mqtt }: Activation): Uint8Array {
  const { clientId, username, password } = mqtt;
  const session = { protocolId: 'MQTT', protocolVersion: 4, clean: true, keepalive: 60 } as const;
  return bytesOf({ cmd: 'connect', ...session, clientId, username, password: Buffer.from(password) });
}

function wholePackets({ topics }: Activation): Uint8Array[] {
  const report = { payload: '{"params":{"angle":1}}', dup: false, retain: false } as const;
  return [
    bytesOf({ cmd: 'publish', topic: topics.propertyPost, qos: 1, messageId: 1, ...report }),
    bytesOf({ cmd: 'publish', topic: topics.status, qos: 0, ...report }),
    bytesOf({ cmd: 'subscribe', messageId: 2, subscriptions: [{ topic: topics.status, qos: 1 }] }),
    bytesOf({ cmd: 'unsubscribe', messageId: 3, unsubscriptions: [topics.status] }),
    bytesOf({ cmd: 'puback', messageId: 4 }),
    bytesOf({ cmd: 'pingreq' }),
  ];
}

type Ended = { received: Uint8Array[]; code?: number };

/** Sends a frame a packet, then says that it is done; resolves when the connection is over. */
function overWebSocket(device: Activation, packets: Uint8Array[]): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const received: Uint8Array[] = [];
    const socket = new WebSocket(service.edgeUrl(device), 'mqtt', { perMessageDeflate: false });
    socket.on('message', (data: Buffer) => received.push(new Uint8Array(data)));
    socket.once('error', reject);
    socket.once('close', (code) => resolve({ received, code }));
    socket.once('open', () => {
      for (const packet of packets) socket.send(packet);
      socket.close(1000);
    });
  });
}

function throughGateway(_device: Activation, packets: Uint8Array[]): Promise<Ended> {
  return new Promise((resolve) => {
    const received: Uint8Array[] = [];
    const socket = connect({ port: service.rig.mqttPort, host: '127.0.0.1', noDelay: true });
    socket.on('data', (chunk: Buffer) => received.push(new Uint8Array(chunk)));
    // A reset is an end like any other here.
    socket.once('error', () => undefined);
    socket.once('close', () => resolve({ received }));
    socket.end(Buffer.concat(packets));
  });
}

/** Of the packets that came back; undefined for bytes that are none. */
function typesOf(received: Uint8Array[]): (number | undefined)[] {
  const reader = new PacketReader();
  for (const chunk of received) reader.push(chunk);
  const types: (number | undefined)[] = [];
  for (let raw = reader.next(65_536); raw !== undefined; raw = reader.next(65_536)) {
    types.push('type' in raw ? raw.type : undefined);
    if ('malformed' in raw) break;
  }
  return types;
}

test('ten thousand malformed packets end their connections with a reason, and harm nothing', async () => {
  const devices = await service.rig.activateMany(atOnce);
  const streams = devices.flatMap((device) =>
    fc
      .sample(fc.array(malformedPackets(wholePackets(device)), { minLength: packetsEach, maxLength: packetsEach }), {
        numRuns: connections / devices.length,
        seed: fuzzSeed,
      })
      // Every fourth comes before a session has begun.
      .map((packets, index) => ({ device, packets: index % 4 === 0 ? packets : [login(device), ...packets], index })),
  );
  expect(streams.flatMap(({ packets }) => packets).length).toBeGreaterThanOrEqual(connections * packetsEach);
  const codes = new Set<number | undefined>();
  const answers = new Set<number | undefined>();
  const sendings = [...Map.groupBy(streams, ({ device }) => device.deviceId).values()].map(async (ofDevice) => {
    for (const { device, packets, index } of ofDevice) {
      const send = index % 2 === 0 ? overWebSocket : throughGateway;
      const { received, code } = await send(device, packets);
      for (const type of typesOf(received)) answers.add(type);
      if (send === overWebSocket) codes.add(code);
    }
  });
  await Promise.all(sendings);

  expect([...codes].filter((code) => ![1000, 1002, 1003, 1008, 1009].includes(code ?? 0))).toEqual([]);
  expect(codes).toContain(1002);
  // CONNACK, PUBLISH to whoever subscribed to its own status, PUBACK, SUBACK, UNSUBACK, PINGRESP.
  expect([...answers].filter((type) => ![2, 3, 4, 9, 11, 13].includes(type ?? 0))).toEqual([]);
  expect(answers).toContain(2);
  const [device] = devices;
  if (device === undefined) throw new Error('no device');
  for (const [url, position] of [
    [service.edgeUrl(device), 'up'],
    [service.rig.mqttUrl, 'down'],
  ] as const) {
    const client = await MqttTestClient.ofDevice(url, device);
    await client.client.publishAsync(device.topics.propertyPost, JSON.stringify({ params: { position } }), { qos: 1 });
    await service.rig.untilStatus(device.deviceId, (status) => status.online && status.position === position);
    await client.leave();
  }
  const isEmpty = async () => (await service.gateway.metric('gateway_connections')) === 0;
  await eventually('every connection of the gateway has ended', isEmpty, 20_000);
}, 120_000);
