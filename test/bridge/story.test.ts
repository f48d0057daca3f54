// The two lanes of the bridge, end to end through real brokers and both versions of MQTT.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { UplinkItem } from '../../src/protocol/bridge.ts';
import { commandTopic, Device, reportTopic } from '../../rig/clients/mqtt-client.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { startAedes } from '../../rig/brokers/aedes.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';

type AnyBroker = { url: string; stop: () => Promise<void> };

const brokers = [
  { name: 'aedes', mqtt: '3.1.1', environment: {}, start: startAedes, missing: null },
  { name: 'mosquitto', mqtt: '5', environment: {}, start: () => Mosquitto.start(), missing: mosquittoMissing },
  {
    name: 'mosquitto',
    mqtt: '3.1.1',
    environment: { MQTT_PROTOCOL: '3.1.1' },
    start: () => Mosquitto.start(),
    missing: mosquittoMissing,
  },
] as const;

describe.each(brokers)('through $name with MQTT $mqtt', ({ mqtt, environment, start, missing }) => {
  if (missing !== null) {
    test.skip(`left out: ${missing}`);
    return;
  }

  let rig: BridgeRig<AnyBroker>;
  let device: Device;
  let count = 0;
  const id = (name: string): string => `${name}-${count}`;
  const topic = (): string => commandTopic(device.name);
  const ofThisTest = (): UplinkItem[] =>
    rig.worker.batches.flatMap(({ items }) => items.filter((item) => item.topic === reportTopic(device.name)));

  beforeAll(async () => {
    rig = await BridgeRig.start<AnyBroker>(await start(), environment);
    const bridge = rig.startBridge();
    await rig.worker.untilActive();
    expect(await bridge.untilLogged('connected to the broker')).toMatchObject({ mqtt });
  });
  beforeEach(async () => {
    count += 1;
    device = await rig.connectDevice(`d${count}`);
    await device.listen();
  });
  afterAll(() => rig.close());

  test('a report reaches the Worker with its topic and content, whatever its quality of service', async () => {
    await device.report('{"angle":1}', 1);
    await device.report('{"angle":2}', 0);
    await device.client.publishAsync(reportTopic(device.name), Buffer.from([0xff, 0x00]), { qos: 1 });
    await rig.worker.changes.until('three reports', () => ofThisTest().length === 3);
    expect(ofThisTest()).toMatchObject([
      { topic: reportTopic(device.name), payload: '{"angle":1}' },
      { topic: reportTopic(device.name), payload: '{"angle":2}' },
      { topic: reportTopic(device.name), payloadBase64: Buffer.from([0xff, 0]).toString('base64') },
    ]);
    expect(ofThisTest().every((item) => Math.abs(item.receivedAtMs - Date.now()) < 10_000)).toBe(true);
  });

  test('a command reaches the device unretained, and the broker’s acknowledgement reaches the Worker', async () => {
    rig.worker.publish({ id: id('c'), topic: topic(), payload: '{"id":"1"}' });
    const hasSubscribers = mqtt === '5' ? true : null;
    expect(await rig.worker.answerTo(id('c'))).toEqual({ type: 'published', id: id('c'), hasSubscribers });
    await device.changes.until('the command', () => device.heard.length > 0);
    expect(device.heard).toEqual([{ topic: topic(), payload: '{"id":"1"}', retain: false }]);
  });

  // MQTT 3.1.1 has no expiry.
  if (mqtt === '5') {
    test('the broker is to throw a command away when the Worker says, not when it is published', async () => {
      const modern = await Device.connect(rig.broker.url, `modern${count}`, { protocolVersion: 5 });
      const expiries: unknown[] = [];
      modern.client.on('message', (_topic, _payload, packet) =>
        expiries.push(packet.properties?.messageExpiryInterval),
      );
      await modern.listen();
      const expiresAtMs = Date.now() + 3000;
      rig.worker.publish({ id: id('c'), topic: commandTopic(modern.name), expiresAtMs, messageExpirySeconds: 30 });
      await modern.changes.until('the command', () => expiries.length > 0);
      expect(expiries).toEqual([30]);
      await modern.leave();
    });
  }

  test('a command to a device that is not there says so where MQTT 5 can', async () => {
    rig.worker.publish({ id: id('c'), topic: commandTopic('nobody') });
    const hasSubscribers = mqtt === '5' ? false : null;
    expect(await rig.worker.answerTo(id('c'))).toEqual({ type: 'published', id: id('c'), hasSubscribers });
  });

  test('commands that are late, or sent to a wildcard, are answered and never published', async () => {
    rig.worker.publish({ id: id('late'), topic: topic(), expiresAtMs: Date.now() - 100 });
    rig.worker.publish({ id: id('plus'), topic: '/sys/pk_test/+/thing/service/property/set' });
    rig.worker.publish({ id: id('hash'), topic: '/sys/#' });
    rig.worker.publish({ id: id('empty'), topic: '' });
    expect(await rig.worker.answerTo(id('late'))).toMatchObject({ type: 'not-published', reason: 'expired' });
    for (const name of ['plus', 'hash', 'empty']) {
      expect(await rig.worker.answerTo(id(name))).toMatchObject({ type: 'not-published', reason: 'invalid' });
    }
    rig.worker.publish({ id: id('last'), topic: topic(), payload: 'last' });
    await device.changes.until('the last command', () => device.heard.length > 0);
    expect(device.heard.map(({ payload }) => payload)).toEqual(['last']);
  });

  test('a command that comes twice is published once and answered twice', async () => {
    const answers = (): number => rig.worker.frames.filter((frame) => 'id' in frame && frame.id === id('c')).length;
    rig.worker.publish({ id: id('c'), topic: topic(), payload: 'once' });
    rig.worker.publish({ id: id('c'), topic: topic(), payload: 'once' });
    await rig.worker.changes.until('an answer', () => answers() >= 1);
    rig.worker.publish({ id: id('c'), topic: topic(), payload: 'once' });
    await rig.worker.changes.until('a second answer', () => answers() >= 2);
    rig.worker.publish({ id: id('end'), topic: topic(), payload: 'end' });
    await device.changes.until('the end', () => device.heard.some(({ payload }) => payload === 'end'));
    expect(device.heard.map(({ payload }) => payload)).toEqual(['once', 'end']);
  });

  test('an answer that was lost with the link is given again on the next one', async () => {
    rig.worker.publish({ id: id('c'), topic: topic() });
    await rig.worker.answerTo(id('c'));
    await device.changes.until('the command', () => device.heard.length > 0);
    rig.worker.frames.length = 0;
    rig.worker.cutLinks();
    expect(await rig.worker.answerTo(id('c'))).toMatchObject({ type: 'published' });
    expect(device.heard).toHaveLength(1);
    await rig.worker.untilActive();
  });
});
