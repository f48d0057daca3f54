// Real clients without a broker: the built Worker and the production gateway. The clients are mqtt.js in both versions over
// each way in, and paho and mosquitto's clients as packaged.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { sendCommand, type Activation } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { findFreePort } from '../../rig/ports.ts';
import { makeCertificates, type Certificates } from '../../rig/certificates.ts';
import type { GatewayProcess } from '../../rig/services/processes.ts';
import { WholeService } from '../../rig/services/whole-service.ts';
import { mosquittoClientsMissing, pahoMissing, pythonWithPaho } from '../../rig/brokers/foreign-clients.ts';
import { expectLogins, expectReportsAndCommands, expectSeparateTopics, type Job } from './main-job.ts';

const run = promisify(execFile);
const servername = 'mqtt.example.test';
let certificates: Certificates;
let tlsPort: number;
let service: WholeService<GatewayProcess>;

beforeAll(async () => {
  certificates = makeCertificates(servername);
  tlsPort = await findFreePort();
  const { serverCert, serverKey } = certificates;
  const tls = { MQTT_TLS_PORT: String(tlsPort), TLS_CERT_FILE: serverCert, TLS_KEY_FILE: serverKey };
  service = await WholeService.startWithGateway({}, tls);
});
afterAll(() => service.stop());

const ways = {
  'a WebSocket to the path of the device': (device: Activation) => `${service.directUrl}/${device.deviceId}`,
  'TCP through the gateway': () => service.rig.mqttUrl,
  'TLS through the gateway': () => `mqtts://127.0.0.1:${tlsPort}`,
};
const versions = { '3.1.1': 4, '5': 5 } as const;
const refusals = { '3.1.1': /^code [245]$/, '5': /^code 13[345]$/ };

describe.each(Object.keys(ways) as (keyof typeof ways)[])('mqtt.js over %s', (way) => {
  describe.each(Object.keys(versions) as (keyof typeof versions)[])('with MQTT %s', (version) => {
    const serial = `${way}-${version}`;
    const job = (name: string): Job => ({
      rig: service.rig,
      protocolVersion: versions[version],
      refusal: refusals[version],
      serial: `${serial}-${name}`,
      urlOf: ways[way],
      options: way.startsWith('TLS') ? { ca: readFileSync(certificates.ca), servername } : {},
    });

    it('lets in exactly the documented identities', () => expectLogins(job('logins')));
    it('keeps devices apart', () => expectSeparateTopics(job('foreign')));
    it('carries reports up and commands down', () => expectReportsAndCommands(job('job')));
  });
});

it('a client that offers to compress is served without', async () => {
  const device = await service.rig.activate('compression');
  for (const url of [`${service.directUrl}/${device.deviceId}`, service.directUrl]) {
    const socket = new WebSocket(url, 'mqtt', { perMessageDeflate: true });
    await once(socket, 'open');
    expect(socket.extensions).toBe('');
    socket.terminate();
  }
});

describe.skipIf(mosquittoClientsMissing !== null)("mosquitto's clients through the gateway", () => {
  it.each(['mqttv311', 'mqttv5'])('%s: a report up, a command down', async (version) => {
    const device = await service.rig.activate(`mosquitto-${version}`);
    const { mqtt, topics, deviceId } = device;
    const login = ['-V', version, '-h', '127.0.0.1', '-p', String(mqtt.port)];
    login.push('-i', mqtt.clientId, '-u', mqtt.username, '-P', mqtt.password);
    const message = JSON.stringify({ params: { position: 'middle' } });
    await run('mosquitto_pub', [...login, '-q', '1', '-t', topics.propertyPost, '-m', message]);
    await service.rig.untilStatus(deviceId, ({ online, position }) => !online && position === 'middle');

    const listening = run('mosquitto_sub', [...login, '-q', '1', '-C', '1', '-W', '20', '-t', topics.propertySet]);
    await sendUntilHeard(deviceId);
    expect(JSON.parse((await listening).stdout)).toMatchObject({ params: { action: 'toggle', position: 'up' } });
  });

  it('over TLS, with the authority that the certificate has', async () => {
    const { mqtt, topics, deviceId } = await service.rig.activate('mosquitto-tls');
    const tls = ['-h', '127.0.0.1', '-p', String(tlsPort), '--cafile', certificates.ca, '--insecure'];
    const login = ['-i', mqtt.clientId, '-u', mqtt.username, '-P', mqtt.password];
    const report = ['-q', '1', '-t', topics.propertyPost, '-m', '{"params":{"position":"up"}}'];
    await run('mosquitto_pub', [...tls, ...login, ...report]);
    await service.rig.untilStatus(deviceId, ({ position }) => position === 'up');
  });

  it('are told that a password is wrong', async () => {
    const { mqtt, topics } = await service.rig.activate('mosquitto-wrong');
    const login = ['-p', String(mqtt.port), '-i', mqtt.clientId, '-u', mqtt.username, '-P', 'wrong'];
    const refused = run('mosquitto_pub', [...login, '-t', topics.propertyPost, '-m', '{}']);
    await expect(refused).rejects.toThrow(/not authorised|bad user name/i);
  });
});

describe.skipIf(pahoMissing !== null)('paho', () => {
  it.each([
    ['tcp', '3.1.1'],
    ['tcp', '5'],
    ['path', '3.1.1'],
    ['path', '5'],
  ] as const)('over %s with MQTT %s: a report up, a command down, a reply', async (way, version) => {
    const { mqtt, topics, deviceId } = await service.rig.activate(`paho-${way}-${version}`);
    const setup = {
      version,
      transport: way === 'tcp' ? 'tcp' : 'websockets',
      path: `/mqtt/${deviceId}`,
      port: way === 'tcp' ? mqtt.port : service.rig.port,
      ...{ username: mqtt.username, password: mqtt.password, clientId: mqtt.clientId },
      ...{ reportTopic: topics.propertyPost, commandTopic: topics.propertySet },
    };
    const client = run(pythonWithPaho, ['test/system/paho-device.py', JSON.stringify(setup)], { timeout: 90_000 });
    await sendUntilHeard(deviceId);
    expect((await client).stdout).toContain('"position":"up"');
    await service.rig.untilStatus(deviceId, ({ online, position }) => !online && position === 'middle');
  });
});

/** Commands that nobody is subscribed for yet reach nobody: sent once the device is online, and again until it has one. */
async function sendUntilHeard(deviceId: string): Promise<void> {
  const { api } = service.rig.owner;
  await service.rig.untilStatus(deviceId, ({ online }) => online);
  for (;;) {
    const { commandId } = await sendCommand(api, { deviceId }, { action: 'toggle', position: 'up' }, { wait: '1' });
    const command = await dataOf(
      api.devices[':deviceId'].commands[':commandId'].$get({ param: { deviceId, commandId } }),
    );
    if (command.state !== 'undelivered') return;
  }
}
