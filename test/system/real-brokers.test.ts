// The main job on brokers people run: the built Worker, the production bridge, plain MQTT clients, and Debian's own
// packages in between. Which login and topic checks each broker makes, and how, stands in broker-bridge/BROKERS.md.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DynamicMosquitto, dynamicSecurityMissing } from '../rig/mosquitto-dynamic-security.ts';
import { RabbitMq, rabbitmqMissing } from '../rig/rabbitmq.ts';
import {
  bridgeName,
  bridgeSecret,
  hookSecret,
  RealClient,
  RealStack,
  refusalOf,
  removeBundle,
  type Activation,
} from '../rig/service.ts';
import { tellOfForeignTopics, tellOfLogins, tellOfTheJob, type Story } from './main-job.ts';

for (const missing of [rabbitmqMissing, dynamicSecurityMissing]) {
  if (missing !== null) console.warn(`skipped: ${missing}`);
}

afterAll(removeBundle);

describe.skipIf(rabbitmqMissing !== null)('RabbitMQ, asking the service over HTTP', () => {
  const parts: { stop: () => Promise<void> }[] = [];
  let stack: RealStack;
  const story = (serial: string): Story => ({ stack, protocolVersion: 4, refusal: /^code [45]$/, serial });

  beforeAll(async () => {
    stack = await RealStack.start({ BROKER_REPORTS_CONNECTIONS: 'false' });
    parts.push(stack);
    const hookUrl = `${stack.workerUrl}/hooks/rabbitmq/s/${hookSecret}`;
    parts.push(await RabbitMq.start({ port: stack.mqttPort, hookUrl }));
    await stack.startBridge();
  });
  afterAll(async () => {
    for (const part of parts) await part.stop();
  });

  it('lets in exactly the documented identities', () => tellOfLogins(story('logins')));
  it('keeps devices apart', () => tellOfForeignTopics(story('foreign')));
  it('carries reports up and commands down', () => tellOfTheJob(story('job')));

  it('lets the bridge hear devices and nothing else', async () => {
    const bridge = await RealClient.connect(stack.brokerUrl, {
      username: bridgeName,
      password: bridgeSecret,
      clientId: bridgeName,
      protocolVersion: 4,
    });
    expect(await bridge.trySubscribe('/sys/#')).toBe(false);
    await bridge.leave();
  });
});

describe.skipIf(dynamicSecurityMissing !== null)('mosquitto, told by the service through its dynamic security', () => {
  let stack: RealStack;
  let broker: DynamicMosquitto;

  beforeAll(async () => {
    stack = await RealStack.start({ BROKER_REPORTS_CONNECTIONS: 'false', BROKER_PROVISIONING: 'mosquitto' });
    broker = await DynamicMosquitto.start({ port: stack.mqttPort, bridgePassword: bridgeSecret });
  });
  afterAll(async () => {
    await stack.stop();
    await broker.stop();
  });

  describe.each([
    ['MQTT 5', '5', 5, /^code 13[45]$/],
    ['MQTT 3.1.1', '3.1.1', 4, /^code [45]$/],
  ] as const)('over %s', (_, bridgeProtocol, protocolVersion, refusal) => {
    const story = (serial: string): Story => ({
      stack,
      protocolVersion,
      refusal,
      serial: `${serial}-${bridgeProtocol}`,
    });

    beforeAll(() => stack.startBridge(bridgeProtocol));
    afterAll(() => stack.stopBridge());

    it('lets in exactly the documented identities', () => tellOfLogins(story('logins')));
    it('keeps devices apart', () => tellOfForeignTopics(story('foreign')));
    it('carries reports up and commands down', () => tellOfTheJob(story('job')));
  });

  describe('and a bridge that comes and goes', () => {
    beforeAll(() => stack.startBridge());

    const loginOf = ({ mqtt }: Activation) => refusalOf(stack.brokerUrl, { ...mqtt, protocolVersion: 4 });

    it('ends the session of a device that is deleted, and its login', async () => {
      const activation = await stack.activate('deleted');
      const device = await RealClient.ofDevice(stack.brokerUrl, activation, 4);
      expect(await stack.call('DELETE', `/devices/${activation.deviceId}`)).toMatchObject({ code: 200 });
      await device.untilClosed();
      expect(await loginOf(activation)).toBe('code 5');
    });

    it('takes the newest password of a device that activates again', async () => {
      const first = await stack.activate('again');
      const second = await stack.activate('again');
      expect(await loginOf(first)).toBe('code 5');
      expect(await loginOf(second)).toBe('accepted');
    });

    it('learns after an outage what it missed', async () => {
      const known = await stack.activate('known-before');
      await broker.halt();
      const missed = await stack.activate('missed');
      expect(await stack.call('DELETE', `/devices/${known.deviceId}`)).toMatchObject({ code: 200 });
      await broker.startAgain();
      // Whatever reaches the broker again takes along what is due; the minute's job would do the same.
      await expect
        .poll(
          async () => {
            await stack.activate('after-the-outage');
            return [await loginOf(missed), await loginOf(known)];
          },
          { timeout: 30_000, interval: 250 },
        )
        .toEqual(['accepted', 'code 5']);
    });

    it('keeps a client bound to its own client id', async () => {
      const activation = await stack.activate('bound');
      expect(broker.describeClient(activation.mqtt.username)).toContain(activation.mqtt.clientId);
    });
  });
});
