// The ways into a broker: versions of MQTT, TLS with its options, and the limits a broker sets.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { commandTopic } from '../../rig/clients/mqtt-client.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { makeCertificates } from '../../rig/certificates.ts';
import { startAedes } from '../../rig/brokers/aedes.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';
import { findFreePort } from '../../rig/ports.ts';

let rig: BridgeRig<{ url: string; stop: () => Promise<unknown> }> | undefined;
afterEach(async () => {
  await rig?.close();
  rig = undefined;
});

async function expectStory(): Promise<void> {
  await rig!.worker.untilActive();
  const device = await rig!.connectDevice('d1');
  await device.listen();
  await device.report('up');
  await rig!.worker.untilEffects('up');
  rig!.worker.publish({ id: 'c1', topic: commandTopic('d1'), payload: 'down' });
  expect(await rig!.worker.answerTo('c1')).toMatchObject({ type: 'published' });
  await device.changes.until('the command', () => device.heard.length === 1);
}

describe('versions of MQTT', () => {
  test('a broker that refuses MQTT 5 is tried with 3.1.1', async () => {
    rig = await BridgeRig.start(await startAedes());
    const bridge = rig.startBridge();
    await expectStory();
    expect(await bridge.untilLogged('connected to the broker')).toMatchObject({ mqtt: '3.1.1' });
  });

  test('a version that was asked for is not departed from', async () => {
    rig = await BridgeRig.start(await startAedes(), { MQTT_PROTOCOL: '5' });
    const bridge = rig.startBridge();
    expect(await bridge.untilLogged('no connection to the broker')).toMatchObject({ mqtt: '5', refusedCode: 1 });
  });
});

describe.skipIf(mosquittoMissing !== null)('with mosquitto', () => {
  test('over TLS with its own authority, a client certificate and a server name', async () => {
    const files = makeCertificates('broker.test');
    const tlsPort = await findFreePort();
    rig = await BridgeRig.start(
      await Mosquitto.start(
        [
          `listener ${tlsPort} 127.0.0.1`,
          `cafile ${files.ca}`,
          `certfile ${files.serverCert}`,
          `keyfile ${files.serverKey}`,
          'require_certificate true',
        ].join('\n'),
      ),
    );
    const trusted = { MQTT_URL: `mqtts://127.0.0.1:${tlsPort}`, MQTT_CA_FILE: files.ca };
    const identified = { ...trusted, MQTT_CERT_FILE: files.clientCert, MQTT_KEY_FILE: files.clientKey };
    const stranger = rig.startBridge({
      ...trusted,
      MQTT_SERVERNAME: 'broker.test',
      SPOOL_DIR: `${rig.spoolDir}/1`,
    });
    await stranger.untilLogged('no connection to the broker');
    await stranger.kill('SIGTERM');
    const elsewhere = rig.startBridge({
      ...identified,
      MQTT_SERVERNAME: 'other.test',
      SPOOL_DIR: `${rig.spoolDir}/2`,
    });
    const refusal = await elsewhere.untilLogged('no connection to the broker');
    expect(refusal['cause']).toContain('other.test');
    await elsewhere.kill('SIGTERM');
    rig.startBridge({ ...identified, MQTT_SERVERNAME: 'broker.test' });
    await expectStory();
  });

  test('more commands at once than the broker lets be unanswered are all published, in order', async () => {
    // mosquitto announces a receive maximum of 20.
    rig = await BridgeRig.start(await Mosquitto.start());
    const bridge = rig.startBridge();
    await rig.worker.untilActive();
    const device = await rig.connectDevice('d1');
    await device.listen();
    const ids = Array.from({ length: 300 }, (_, n) => `c${n}`);
    for (const id of ids) rig.worker.publish({ id, topic: commandTopic('d1'), payload: id });
    await device.changes.until('all commands', () => device.heard.length === 300);
    expect(device.heard.map(({ payload }) => payload)).toEqual(ids);
    for (const id of ids) expect(await rig.worker.answerTo(id)).toMatchObject({ type: 'published' });
    expect(bridge.lines.filter(({ message }) => message === 'no connection to the broker')).toEqual([]);
  });

  test('a command that the broker does not permit is answered as refused', async () => {
    const aclFile = join(mkdtempSync(join(tmpdir(), 'bridge-acl-')), 'acl');
    writeFileSync(aclFile, 'topic readwrite /sys/#\ntopic deny forbidden/#\n');
    rig = await BridgeRig.start(await Mosquitto.start(`acl_file ${aclFile}`));
    rig.startBridge();
    await rig.worker.untilActive();
    rig.worker.publish({ id: 'c1', topic: 'forbidden/x' });
    expect(await rig.worker.answerTo('c1')).toMatchObject({ type: 'not-published', reason: 'refused' });
  });

  test('credentials that the broker refuses are an alarm, and asked again in case they are mended', async () => {
    rig = await BridgeRig.start(await Mosquitto.start('allow_anonymous false'));
    const bridge = rig.startBridge({ MQTT_USERNAME: 'bridge', MQTT_PASSWORD: 'wrong-password-of-the-bridge' });
    const line = await bridge.untilLogged('no connection to the broker');
    expect(line).toMatchObject({ alarm: true, refusedCode: 135 });
    const refusals = (): number => bridge.lines.filter(({ message }) => message === line.message).length;
    await bridge.changes.until('another attempt', () => refusals() >= 2);
    expect(JSON.stringify(bridge.lines)).not.toContain('wrong-password-of-the-bridge');
  });
});
