// Contract section 6: topics and message bodies, with a real device by each way in.
// Also field notes 36 to 49 where a device can show them.
import { describe, expect, it, vi } from 'vitest';
import { addProduct, sendCommand, type Activation } from '../../rig/clients/accounts.ts';
import { activate, connectDevice, newDevice, openRelay, signUp } from '../../rig/clients/conformance-client.ts';
import type { RelayClient } from '../../rig/clients/relay-client.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { dataOf } from '../../rig/clients/api.ts';

const owner = await signUp();

/** Everything that is said on a device's topics. */
async function watch({ mqtt, topics }: Activation): Promise<RelayClient> {
  const relay = await openRelay();
  await relay.ask({ action: 'auth', username: mqtt.username, password: mqtt.password });
  await relay.ask({ action: 'subscribe', topic: topics.status.replace(/status$/, '#') });
  return relay;
}

const statusOf = ({ deviceId }: Activation) =>
  dataOf(owner.api.devices[':deviceId'].status.$get({ param: { deviceId } }));

/** Publishes what a device reports, and a marker behind it: when the marker has arrived, so has the report. */
async function report(client: MqttTestClient, device: Activation, ...payloads: (object | string)[]): Promise<void> {
  for (const payload of payloads) {
    const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
    await client.client.publishAsync(device.topics.propertyPost, text, { qos: 0 });
  }
}

describe('property reports', () => {
  const reports: [string, object][] = [
    [
      'as documented',
      { method: 'thing.event.property.post', id: '1', params: { position: 'up' }, time: 1772366400000 },
    ],
    ['without a time', { method: 'thing.event.property.post', id: '1', params: { position: 'up' } }],
    ['without an id', { method: 'thing.event.property.post', params: { position: 'up' } }],
    ['with a method that is null', { method: null, params: { position: 'up' } }],
    ['without a method', { id: '1', params: { position: 'up' } }],
    ['with a timestamp for the time', { id: '1', params: { position: 'up' }, timestamp: 12 }],
    ['of params alone', { params: { position: 'up' } }],
    ['of bare properties', { position: 'up', angle: 90 }],
    ['with properties nobody knows', { params: { position: 'up', humidity: 40, nested: { a: 1 } } }],
    ['with another property of the wrong type', { params: { position: 'up', angle: 'wide', wifi_rssi: null } }],
  ];
  it.each(reports)('count %s', async (_, body) => {
    const device = await newDevice(owner);
    const client = await connectDevice(device);
    await report(client, device, body);
    await vi.waitFor(async () => expect(await statusOf(device)).toMatchObject({ position: 'up' }));
  });

  it('change what they name and leave the rest, each time anew with the same id', async () => {
    const device = await newDevice(owner);
    const client = await connectDevice(device);
    const relay = await watch(device);
    const said = [
      { id: '1', params: { position: 'up' } },
      { id: '1', params: { wifi_rssi: -60 } },
      { id: '1', params: { position: 'sideways' } },
      { id: '1', params: { angle: 45 } },
    ];
    await report(client, device, ...said);
    for (const payload of said) expect(await relay.nextPush()).toEqual({ topic: device.topics.propertyPost, payload });
    expect(await statusOf(device)).toMatchObject({ position: 'up', online: true });
    await report(client, device, { id: '1', params: { position: 'down' } });
    await relay.nextPush();
    await vi.waitFor(async () => expect(await statusOf(device)).toMatchObject({ position: 'down' }));
  });

  it('field note 49: are none if they cannot be read, which changes nothing and stops no later one', async () => {
    const device = await newDevice(owner);
    const client = await connectDevice(device);
    await report(client, device, { params: { position: 'up' } });
    await vi.waitFor(async () => expect(await statusOf(device)).toMatchObject({ position: 'up' }));
    const relay = await watch(device);
    const rubbish = ['', '{', 'null', '[]', '"up"', '\u0000', '{"params":7}', '{"params":{"position":7}}'];
    await report(client, device, ...rubbish, '['.repeat(5_000), JSON.stringify({ params: { a: 'x'.repeat(20_000) } }));
    const marker = JSON.stringify({ params: { angle: 7 } });
    await report(client, device, marker);
    await relay.untilPushed(device.topics.propertyPost, (payload) => JSON.stringify(payload) === marker);
    expect(await statusOf(device)).toMatchObject({ online: true, position: 'up' });
    await report(client, device, { params: { position: 'middle' } });
    await vi.waitFor(async () => expect(await statusOf(device)).toMatchObject({ position: 'middle' }));
  });

  it('are not made of replies, wherever those arrive', async () => {
    const device = await newDevice(owner);
    const client = await connectDevice(device);
    const relay = await watch(device);
    const reply = { method: 'thing.service.property.set_reply', id: 'unknown', code: 200, params: { position: 'up' } };
    await report(client, device, { params: { position: 'down' } }, reply);
    await client.tryPublish(device.topics.propertySet.replace(/set$/, 'set_reply'), reply);
    for (let count = 0; count < 3; count += 1) await relay.nextPush();
    expect(await statusOf(device)).toMatchObject({ position: 'down' });
  });
});

describe('online and offline', () => {
  it('may be announced without a time', async () => {
    const device = await newDevice(owner);
    const client = await connectDevice(device);
    const relay = await watch(device);
    await client.tryPublish(device.topics.status, { status: 'online' });
    const push = await relay.nextPush();
    expect(push).toMatchObject({ topic: device.topics.status, payload: { status: 'online' } });
    expect(await statusOf(device)).toMatchObject({ online: true });
  });

  it('are announced by the service for a device that could not', async () => {
    const productKey = await addProduct(owner);
    await dataOf(owner.api.products[':productKey'].$put({ param: { productKey }, json: { offlineGraceSeconds: 0 } }));
    const device = await activate(productKey);
    const client = await connectDevice(device);
    await vi.waitFor(async () => expect(await statusOf(device)).toMatchObject({ online: true }));
    const relay = await watch(device);
    client.client.stream.destroy();
    const push = await relay.nextPush();
    expect(push).toEqual({
      topic: device.topics.status,
      payload: { status: 'offline', time: expect.any(Number) as number },
    });
  });

  it('end up online when a device takes over its own session', async () => {
    const device = await newDevice(owner);
    const first = await connectDevice(device);
    const second = await connectDevice(device);
    await first.untilClosed();
    await report(second, device, { params: { position: 'up' } });
    await vi.waitFor(async () => expect(await statusOf(device)).toMatchObject({ online: true, position: 'up' }));
  });
});

describe('commands', () => {
  it('fit a device with a buffer of 256 bytes, for the longest product key', async () => {
    const productKey = `${'k'.repeat(28)}${crypto.randomUUID()}`;
    expect(productKey).toHaveLength(64);
    await dataOf(owner.api.products.$post({ json: { productKey, name: 'Longest', controlMode: 'toggle' } }));
    const device = await activate(productKey);
    const client = await connectDevice(device);
    const lengths: number[] = [];
    client.client.on('packetreceive', ({ cmd, length }) => {
      // The fixed header is a byte, and two of length for packets of this size.
      if (cmd === 'publish') lengths.push((length ?? 0) + 3);
    });
    await client.client.subscribeAsync(device.topics.propertySet, { qos: 1 });
    for (const body of [
      { action: 'pulse', duration: 3_600_000 },
      { action: 'toggle', position: 'middle' },
      { switch: false, angle: 180 },
    ] as const) {
      await sendCommand(owner.api, device, body);
    }
    await vi.waitFor(() => expect(lengths).toHaveLength(3));
    expect(Math.max(...lengths)).toBeLessThanOrEqual(256);
  });

  it('are not kept for a device that subscribes later', async () => {
    const device = await newDevice(owner);
    const client = await connectDevice(device);
    await client.client.subscribeAsync(device.topics.propertySet, { qos: 1 });
    await sendCommand(owner.api, device, { action: 'trigger' });
    await client.untilHeard(device.topics.propertySet);
    await client.leave();
    const later = await connectDevice(device);
    await later.client.subscribeAsync(device.topics.propertySet, { qos: 1 });
    // A second command proves that the first is not on its way.
    await sendCommand(owner.api, device, { action: 'pulse', duration: 7 });
    expect(await later.untilHeard(device.topics.propertySet)).toMatchObject({ params: { duration: 7 } });
    expect(later.heard).toHaveLength(1);
  });
});

it('topic rights keep devices to their own topics, both ways', async () => {
  const productKey = await addProduct(owner);
  const [own, other] = [await activate(productKey, 'A'), await activate(productKey, 'B')];
  const client = await connectDevice(own);
  for (const filter of ['#', '/sys/#', '/sys/+/+/status', other.topics.status, `/sys/${productKey}/+/#`]) {
    expect(await client.trySubscribe(filter), filter).toBe(false);
  }
  expect(await client.trySubscribe(own.topics.propertySet)).toBe(true);
  const relay = await watch(other);
  await client.tryPublish(other.topics.propertyPost, { params: { position: 'up' } });
  await client.tryPublish(own.topics.propertySet, { method: 'thing.service.property.set' });
  const own_ = await connectDevice(other);
  await own_.tryPublish(other.topics.propertyPost, { params: { position: 'down' } });
  const pushes = [await relay.nextPush(), await relay.nextPush()].filter(({ topic }) => topic !== other.topics.status);
  expect(pushes).toEqual([{ topic: other.topics.propertyPost, payload: { params: { position: 'down' } } }]);
  expect(await statusOf(other)).toMatchObject({ position: 'down' });
});
