// The main job on brokers that people run: the built Worker, the production bridge, plain MQTT clients, and Debian's own
// packages. broker-bridge/BROKERS.md says which login and topic checks each broker makes, and how.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Activation } from '../rig/accounts.ts';
import { bridgeName, bridgeSecret, type BridgeProcess } from '../rig/bridge-process.ts';
import { describeClient, dynamicSecurityMissing, startDynamicMosquitto } from '../rig/mosquitto-dynamic-security.ts';
import type { Mosquitto } from '../rig/mosquitto.ts';
import { MqttTestClient, refusalOf } from '../rig/mqtt-client.ts';
import { RabbitMq, rabbitmqMissing } from '../rig/rabbitmq.ts';
import { hookSecret, WorkerRig } from '../rig/worker-rig.ts';
import { expectLogins, expectReportsAndCommands, expectSeparateTopics, type Job } from './main-job.ts';
import { dataOf } from '../rig/api.ts';

for (const missing of [rabbitmqMissing, dynamicSecurityMissing]) {
  if (missing !== null) console.warn(`skipped: ${missing}`);
}

/** A bridge through which the service is healthy. */
async function startBridge(rig: WorkerRig, protocol: 'auto' | '5' | '3.1.1'): Promise<BridgeProcess> {
  const bridge = rig.startBridge({ environment: { MQTT_PROTOCOL: protocol } });
  await rig.untilHealthy();
  return bridge;
}

describe.skipIf(rabbitmqMissing !== null)('RabbitMQ, which asks the service over HTTP', () => {
  let rig: WorkerRig;
  let broker: RabbitMq;
  const job = (serial: string): Job => ({ rig, protocolVersion: 4, refusal: /^code [45]$/, serial });

  beforeAll(async () => {
    rig = await WorkerRig.start();
    broker = await RabbitMq.start({ port: rig.mqttPort, hookUrl: `${rig.url}/hooks/rabbitmq/s/${hookSecret}` });
    await startBridge(rig, 'auto');
  });
  afterAll(async () => {
    await rig.stop();
    await broker.stop();
  });

  it('lets in exactly the documented identities', () => expectLogins(job('logins')));
  it('keeps devices apart', () => expectSeparateTopics(job('foreign')));
  it('carries reports up and commands down', () => expectReportsAndCommands(job('job')));

  it('lets the bridge subscribe to the topics of devices and to nothing else', async () => {
    const login = { username: bridgeName, password: bridgeSecret, clientId: bridgeName };
    const bridge = await MqttTestClient.open(rig.mqttUrl, { ...login, protocolVersion: 4 });
    expect(await bridge.trySubscribe('/sys/#')).toBe(false);
    await bridge.leave();
  });
});

describe.skipIf(dynamicSecurityMissing !== null)('mosquitto, configured by the service over dynamic security', () => {
  let rig: WorkerRig;
  let broker: Mosquitto;

  beforeAll(async () => {
    rig = await WorkerRig.start({ vars: { BROKER_PROVISIONING: 'mosquitto' } });
    broker = await startDynamicMosquitto(rig.mqttPort, bridgeSecret);
  });
  afterAll(async () => {
    await rig.stop();
    await broker.stop();
  });

  describe.each([
    ['MQTT 5', '5', 5, /^code 13[45]$/],
    ['MQTT 3.1.1', '3.1.1', 4, /^code [45]$/],
  ] as const)('over %s', (_, bridgeProtocol, protocolVersion, refusal) => {
    let bridge: BridgeProcess;
    const job = (serial: string): Job => ({ rig, protocolVersion, refusal, serial: `${serial}-${bridgeProtocol}` });

    beforeAll(async () => {
      bridge = await startBridge(rig, bridgeProtocol);
    });
    afterAll(() => bridge.kill('SIGTERM'));

    it('lets in exactly the documented identities', () => expectLogins(job('logins')));
    it('keeps devices apart', () => expectSeparateTopics(job('foreign')));
    it('carries reports up and commands down', () => expectReportsAndCommands(job('job')));
  });

  describe('and a bridge that comes and goes', () => {
    beforeAll(async () => {
      await startBridge(rig, 'auto');
    });

    const loginOf = ({ mqtt }: Activation) => refusalOf(rig.mqttUrl, { ...mqtt, protocolVersion: 4 });
    const remove = ({ deviceId }: Activation) =>
      dataOf(rig.owner.api.devices[':deviceId'].$delete({ param: { deviceId } }));

    it('ends the session of a device that is deleted, and its login', async () => {
      const activation = await rig.activate('deleted');
      const device = await MqttTestClient.ofDevice(rig.mqttUrl, activation);
      await remove(activation);
      await device.untilClosed();
      expect(await loginOf(activation)).toBe('code 5');
    });

    it('takes the newest password of a device that activates again', async () => {
      const first = await rig.activate('again');
      const second = await rig.activate('again');
      expect(await loginOf(first)).toBe('code 5');
      expect(await loginOf(second)).toBe('accepted');
    });

    it('learns after an outage what it missed', async () => {
      const known = await rig.activate('known-before');
      await broker.stop();
      const missed = await rig.activate('missed');
      await remove(known);
      await broker.startAgain();
      // The next operation that reaches the broker takes the outbox along; the job of each minute would do the same.
      await expect
        .poll(
          async () => {
            await rig.activate('after-the-outage');
            return [await loginOf(missed), await loginOf(known)];
          },
          { timeout: 30_000, interval: 250 },
        )
        .toEqual(['accepted', 'code 5']);
    });

    it('keeps a client bound to its own client id', async () => {
      const { mqtt } = await rig.activate('bound');
      expect(describeClient(broker, mqtt.username)).toContain(mqtt.clientId);
    });
  });
});
