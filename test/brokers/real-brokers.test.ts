// The main job on brokers that people run: the built Worker, the production bridge, plain MQTT clients, and Debian's own
// packages. broker-bridge/BROKERS.md says which login and topic checks each broker makes, and how.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keptClientId } from '../../broker-bridge/src/config.ts';
import type { Activation } from '../../rig/clients/accounts.ts';
import { makeCertificates, portOf, startTlsFront, type Certificates } from '../../rig/certificates.ts';
import { bridgeName, bridgePassword, type BridgeProcess } from '../../rig/services/processes.ts';
import { eventually } from '../../rig/changes.ts';
import {
  deleteClient,
  describeClient,
  dynamicSecurityMissing,
  startDynamicMosquitto,
} from '../../rig/brokers/mosquitto-dynamic-security.ts';
import type { Mosquitto } from '../../rig/brokers/mosquitto.ts';
import { MqttTestClient, refusalOf } from '../../rig/clients/mqtt-client.ts';
import { findFreePort } from '../../rig/ports.ts';
import { RabbitMq, rabbitmqMissing } from '../../rig/brokers/rabbitmq.ts';
import { hookSecret, WorkerRig } from '../../rig/worker/worker-rig.ts';
import { expectLogins, expectReportsAndCommands, expectSeparateTopics, type Job } from '../system/main-job.ts';
import { dataOf } from '../../rig/clients/api.ts';

for (const missing of [rabbitmqMissing, dynamicSecurityMissing]) {
  if (missing !== null) console.warn(`skipped: ${missing}`);
}

/** An active bridge through which the service is healthy; with a client id that it made up, as an operator would run it. */
async function startBridge(rig: WorkerRig, protocol: 'auto' | '5' | '3.1.1'): Promise<BridgeProcess> {
  const bridge = rig.startBridge({ environment: { MQTT_PROTOCOL: protocol, MQTT_CLIENT_ID: '' } });
  // The service may still count the bridge before it as connected.
  await bridge.untilReady();
  await rig.untilHealthy();
  return bridge;
}

function clientIdOfBridge(rig: WorkerRig): string {
  return keptClientId(join(rig.stateDir, 'spool'));
}

/** A device that knows the client id of the bridge, or of another device, tries to go on with its session. */
async function expectSessionsAreSafe({ rig, protocolVersion, refusal, serial }: Job, bridge: BridgeProcess) {
  const [device, other] = [await rig.activate(`${serial}-thief`), await rig.activate(`${serial}-victim`)];
  const victim = await MqttTestClient.ofDevice(rig.mqttUrl, other);
  const bridgeId = clientIdOfBridge(rig);
  const losses = () => bridge.lines.filter(({ message }) => message === 'no connection to the broker').length;
  const before = losses();
  const { username, password } = device.mqtt;
  for (const clientId of [bridgeId, bridgeName, other.mqtt.clientId]) {
    const answer = await refusalOf(rig.mqttUrl, { username, password, clientId, clean: false, protocolVersion });
    expect(answer, clientId).toMatch(refusal);
  }
  expect(bridge.isBrokerConnected, 'the session of the bridge goes on').toBe(true);
  expect(losses()).toBe(before);
  expect(victim.isClosed, 'the session of the other device goes on').toBe(false);
  await victim.leave();
}

describe.skipIf(rabbitmqMissing !== null)('RabbitMQ, which asks the service over https', () => {
  let rig: WorkerRig;
  let broker: RabbitMq;
  let bridge: BridgeProcess;
  let certificates: Certificates;
  let hookUrl: string;
  const job = (serial: string): Job => ({ rig, protocolVersion: 4, refusal: /^code [45]$/, serial });

  beforeAll(async () => {
    rig = await WorkerRig.start();
    certificates = makeCertificates('localhost');
    const front = await startTlsFront(rig.port, certificates);
    hookUrl = `https://localhost:${portOf(front)}/hooks/rabbitmq/s/${hookSecret}`;
    broker = await RabbitMq.start({ port: rig.mqttPort, hookUrl, caFile: certificates.ca });
    bridge = await startBridge(rig, '3.1.1');
  });
  afterAll(async () => {
    await rig.stop();
    await broker.stop();
  });

  it('lets in exactly the documented identities', () => expectLogins(job('logins')));
  it('keeps devices apart', () => expectSeparateTopics(job('foreign')));
  it('carries reports up and commands down', () => expectReportsAndCommands(job('job')));

  it('keeps sessions from a login that names their client id', () => expectSessionsAreSafe(job('session'), bridge));

  it('lets a connected device go on with what it has used while the Worker is away', async () => {
    const activation = await rig.activate('outage');
    const device = await MqttTestClient.ofDevice(rig.mqttUrl, activation);
    const report = (angle: number) =>
      device.client.publishAsync(activation.topics.propertyPost, JSON.stringify({ params: { angle } }), { qos: 1 });
    await report(1);
    rig.freezeWorker();
    await report(2);
    expect(device.isClosed).toBe(false);
    rig.thawWorker();
    await device.leave();
  });

  it("knows no login but the service's: guest is refused", async () => {
    for (const clientId of ['guest', bridgeName, clientIdOfBridge(rig)]) {
      const guest = { username: 'guest', password: 'guest', clientId, protocolVersion: 4 as const };
      expect(await refusalOf(rig.mqttUrl, guest)).toMatch(/^code [45]$/);
    }
  });

  it('asks nobody whose certificate is of another authority', async () => {
    const port = await findFreePort();
    const misled = await RabbitMq.start({ port, hookUrl, caFile: makeCertificates('localhost').ca });
    const { mqtt } = await rig.activate('misled');
    const { username, password, clientId } = mqtt;
    const login = { username, password, clientId, protocolVersion: 4 as const };
    expect(await refusalOf(misled.url, login)).toMatch(/^code [45]$/);
    await eventually('its reason in the log', () => misled.log.includes('Fatal - Unknown CA'));
    expect(await refusalOf(rig.mqttUrl, login)).toBe('accepted');
    await misled.stop();
    // It starts a second RabbitMQ.
  });

  it('lets the bridge subscribe to the topics of devices and to nothing else', async () => {
    const login = { username: bridgeName, password: bridgePassword, clientId: bridgeName };
    const client = await MqttTestClient.open(rig.mqttUrl, { ...login, protocolVersion: 4 });
    expect(await client.trySubscribe('/sys/#')).toBe(false);
    await client.leave();
  });
});

describe.skipIf(dynamicSecurityMissing !== null)('mosquitto, configured by the service over dynamic security', () => {
  let rig: WorkerRig;
  let broker: Mosquitto;
  const workerLines: string[] = [];

  beforeAll(async () => {
    const onWorkerLine = (line: string) => void workerLines.push(line);
    rig = await WorkerRig.start({ vars: { BROKER_PROVISIONING: 'mosquitto' }, onWorkerLine });
    mkdirSync(join(rig.stateDir, 'spool'));
    broker = await startDynamicMosquitto(rig.mqttPort, { clientId: clientIdOfBridge(rig), password: bridgePassword });
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
    it('keeps sessions from a login that names their client id', () => expectSessionsAreSafe(job('session'), bridge));
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
          { interval: 250 },
        )
        .toEqual(['accepted', 'code 5']);
    });

    it('does not take an acknowledgement of mosquitto for success', async () => {
      const activation = await rig.activate('lost-at-the-broker');
      const param = { deviceId: activation.deviceId };
      deleteClient(broker, activation.mqtt.username);
      await dataOf(rig.owner.api.devices[':deviceId'].$patch({ param, json: { disabled: true } }));
      await dataOf(rig.owner.api.devices[':deviceId'].$patch({ param, json: { disabled: false } }));
      await eventually(
        () => `the refusal in the log: ${workerLines.slice(-3).join()}`,
        () => workerLines.some((line) => line.includes('enableClient') && line.includes('Client not found')),
      );
    });

    it('keeps a client bound to its own client id', async () => {
      const { mqtt } = await rig.activate('bound');
      expect(describeClient(broker, mqtt.username)).toContain(mqtt.clientId);
    });
  });
});
