// A canary for the one thing the bridge builds on in the MQTT library that is easily lost in an update: a message
// handed over with an error is not acknowledged, reading goes on, and an acknowledgement written later counts.
import mqtt, { type IPublishPacket, type MqttClient } from 'mqtt';
import { generate } from 'mqtt-packet';
import { afterEach, describe, expect, test } from 'vitest';
import { Changes } from '../../rig/changes.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';

describe.skipIf(mosquittoMissing !== null).each([4, 5] as const)('with MQTT protocol level %i', (protocolVersion) => {
  const broker: { current: Mosquitto | null } = { current: null };
  const clients: MqttClient[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) client.end(true);
    await broker.current?.stop();
  });

  test('messages stay unacknowledged until told, while later ones and pings keep coming', async () => {
    broker.current = await Mosquitto.start();
    const { url } = broker.current;
    const changes = new Changes();
    const received: IPublishPacket[] = [];
    let pings = 0;
    const connect = async (): Promise<MqttClient> => {
      const client = mqtt.connect(url, {
        clientId: 'canary',
        clean: false,
        protocolVersion,
        manualConnect: true,
        reconnectPeriod: 0,
        keepalive: 1,
        ...(protocolVersion === 5 ? { properties: { sessionExpiryInterval: 60, receiveMaximum: 100 } } : {}),
      });
      clients.push(client);
      client.handleMessage = (packet, callback) => {
        received.push(packet);
        changes.note();
        callback(new Error('ack deferred'));
      };
      client.on('packetreceive', ({ cmd }) => {
        if (cmd === 'pingresp') pings += 1;
        changes.note();
      });
      let isConnected = false;
      client.on('connect', () => {
        isConnected = true;
        changes.note();
      });
      client.connect();
      await changes.until('connected', () => isConnected);
      return client;
    };

    const first = await connect();
    await first.subscribeAsync('canary/#', { qos: 1 });
    const publisher = await mqtt.connectAsync(url);
    clients.push(publisher);
    for (const payload of ['a', 'b', 'c']) await publisher.publishAsync('canary/x', payload, { qos: 1 });
    await changes.until('three messages', () => received.length === 3);
    await changes.until('a ping answered', () => pings > 0);
    const [a] = received;
    first.stream.write(generate({ cmd: 'puback', messageId: a!.messageId!, reasonCode: 0 }, { protocolVersion }));
    await first.endAsync();

    received.length = 0;
    await connect();
    await changes.until('the unacknowledged again', () => received.length === 2);
    expect(received.map(({ payload }) => payload.toString())).toEqual(['b', 'c']);
    expect(received.every(({ dup }) => dup)).toBe(true);
  });
});
