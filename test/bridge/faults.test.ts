// The bridge as a process, with real brokers, while parts of the chain are killed, cut, frozen or full. What the
// broker acknowledged to the device must arrive, and have effect once.
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, renameSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import type { BridgeFrame } from '../../src/protocol/bridge.ts';
import { commandTopic, type Device } from '../../rig/clients/mqtt-client.ts';
import type { BridgeProcess } from '../../rig/services/processes.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { readExample } from '../../rig/brokers/broker-examples.ts';
import { eventually } from '../../rig/changes.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;

describe.skipIf(mosquittoMissing !== null)('with mosquitto', () => {
  const versions = ['5', '3.1.1'];
  let rig: BridgeRig<Mosquitto>;
  let device: Device;
  let bridge: BridgeProcess;
  afterEach(() => rig.close());

  async function open(environment: Record<string, string> = {}): Promise<void> {
    rig = await BridgeRig.start(await Mosquitto.start(), environment);
    bridge = rig.startBridge(rig.health);
    await rig.worker.untilActive();
    device = await rig.connectDevice('d1');
  }

  async function untilEachOnce(sent: string[]): Promise<void> {
    await rig.worker.untilEffects(...sent);
    expect(new Set(rig.worker.effects).size).toBe(rig.worker.effects.length);
  }

  test.each(versions)(
    'MQTT %s: a broker that is restarted is found again, and nothing is lost or doubled',
    async (version) => {
      await open({ MQTT_PROTOCOL: version });
      const sent = await device.reportMany(0, 200);
      await rig.broker.stop();
      await bridge.untilLogged('no connection to the broker');
      rig.worker.publish({ id: 'while-down', topic: commandTopic('d1') });
      expect(await rig.worker.answerTo('while-down')).toMatchObject({ reason: 'broker_disconnected' });
      await rig.broker.startAgain();
      device = await rig.connectDevice('d1');
      sent.push(...(await device.reportMany(200, 200)));
      await untilEachOnce(sent);
      await rig.worker.untilActive();
      rig.worker.publish({ id: 'after', topic: commandTopic('d1') });
      expect(await rig.worker.answerTo('after')).toMatchObject({ type: 'published' });
    },
  );

  test.each(versions)(
    'MQTT %s: a full spool leaves the rest with the broker, unacknowledged, and takes it when there is room',
    async (version) => {
      await open({ MQTT_PROTOCOL: version, SPOOL_MAX_BYTES: '262144' });
      rig.worker.setFaults({ status: 503 });
      const filler = 'x'.repeat(2000);
      const payloads = Array.from({ length: 300 }, (_, n) => `m${n} ${filler}`);
      await Promise.all(payloads.map((payload) => device.report(payload)));
      await bridge.untilLogged('the spool is full: messages wait unacknowledged at the broker');
      // What is not on the disk was not acknowledged, so a killed bridge may forget it.
      await bridge.kill('SIGKILL');
      rig.worker.setFaults({});
      bridge = rig.startBridge({ SPOOL_MAX_BYTES: '262144' });
      await untilEachOnce(payloads);
    },
  );

  test('a spool that was damaged while the bridge was away ends the start, and nothing is taken without it', async () => {
    await open();
    rig.worker.setFaults({ status: 503 });
    await device.reportMany(0, 50);
    await rig.worker.changes.until('an attempt', () => rig.worker.requests > 0);
    await bridge.kill('SIGTERM');
    const path = join(rig.spoolDir, 'spool.sqlite');
    truncateSync(path, Math.floor(readFileSync(path).length / 8192) * 4096);
    bridge = rig.startBridge();
    expect(await bridge.untilExit()).toBe(2);
    expect((await bridge.untilLogged('the bridge cannot start'))['cause']).toContain('is damaged');
    const sent = await device.reportMany(50, 50);
    renameSync(path, `${path}.put-aside`);
    rig.worker.setFaults({});
    bridge = rig.startBridge();
    await rig.worker.untilEffects(...sent);
  });

  test.runIf(hasPrlimit)(
    'a disk that refuses is an alarm, everywhere by the same word, nothing is acknowledged, and it goes on by itself',
    async () => {
      await open();
      const sent = await device.reportMany(0, 50);
      await rig.worker.untilEffects(...sent);
      limitFileBytes('1');
      const reported = device.reportMany(50, 500);
      await bridge.untilLogged('the disk refuses the spool: messages wait unacknowledged');
      expect(rig.worker.effects).toEqual(sent);
      const { status, text } = await bridge.ask('/readyz');
      expect([status, JSON.parse(text)]).toMatchObject([503, { ready: false, uplinkReason: 'spool_full' }]);
      expect(await bridge.metric('bridge_spool_full')).toBe(1);
      const isTold = (reason?: string) => (frame: BridgeFrame) =>
        frame.type === 'uplink' && frame.stall?.reason === reason;
      await rig.worker.changes.until('the Worker told', () => rig.worker.frames.some(isTold('spool_full')));
      limitFileBytes('unlimited');
      await untilEachOnce(await reported);
      await rig.worker.changes.until('the Worker told of the end', () => isTold()(rig.worker.frames.at(-1)!));
      expect(await bridge.metric('bridge_spool_full')).toBe(0);
    },
  );

  /** Writes beyond it fail; to a database that is as good as a full disk. */
  function limitFileBytes(limit: string): void {
    execFileSync('prlimit', ['--pid', String(bridge.child.pid), `--fsize=${limit}:unlimited`]);
  }

  test('mosquitto keeps through kill -9 what it acknowledged for an absent bridge, with the lines of its example', async () => {
    const lines = readExample('mosquitto/mosquitto.conf').match(/^autosave_.*$/gm) ?? [];
    rig = await BridgeRig.start(await Mosquitto.start(lines.join('\n')));
    bridge = rig.startBridge();
    await rig.worker.untilActive();
    await bridge.kill('SIGTERM');
    device = await rig.connectDevice('d1');
    const sent = await device.reportMany(0, 500);
    // Its last acknowledgement leaves it some milliseconds before the message is saved.
    await eventually('saved', () => readFileSync(join(rig.broker.dir, 'mosquitto.db')).includes('m499'));
    await rig.broker.stop('SIGKILL');
    await rig.broker.startAgain();
    bridge = rig.startBridge();
    await rig.worker.untilEffects(...sent);
  });

  test('SIGTERM lets what is under way arrive, acknowledges it, and ends by itself', async () => {
    await open();
    rig.worker.setFaults({ delayMs: 50 });
    const sent = await device.reportMany(0, 300);
    await rig.worker.changes.until('some', () => rig.worker.effects.length > 0);
    // Not the code 1 of a bridge that had to cut its drain short.
    expect(await bridge.kill('SIGTERM')).toBe(0);
    expect(bridge.lines.at(-1)).toMatchObject({ message: 'left', depth: 0 });
    const arrived = rig.worker.effects.length;
    bridge = rig.startBridge();
    await untilEachOnce(sent);
    expect(arrived).toBeGreaterThan(100);
  });

  test('a command that got stuck on its way is not delivered later', async () => {
    await open();
    await device.listen();
    rig.broker.freeze();
    rig.worker.publish({ id: 'stuck', topic: commandTopic('d1'), expiresAtMs: Date.now() + 2_000 });
    expect(await rig.worker.answerTo('stuck')).toMatchObject({ type: 'not-published', reason: 'cancelled' });
    rig.broker.thaw();
    await rig.worker.untilActive();
    await device.report('awake');
    await rig.worker.untilEffects('awake');
  });

  test('reports keep being taken while the link is down', async () => {
    await open();
    rig.worker.cutLinks();
    await rig.worker.untilEffects(...(await device.reportMany(0, 50)));
    await rig.worker.untilActive();
    expect(bridge.lines.filter(({ message }) => message === 'connected to the broker')).toHaveLength(1);
  });

  test('retained status messages arrive with a new session, flagged as retained', async () => {
    rig = await BridgeRig.start(await Mosquitto.start());
    device = await rig.connectDevice('d1');
    await device.client.publishAsync('/sys/pk_test/d1/status', 'old', { qos: 1, retain: true });
    rig.startBridge();
    await rig.worker.untilEffects('old');
    const items = rig.worker.batches.flatMap((batch) => batch.items);
    expect(items).toMatchObject([{ topic: '/sys/pk_test/d1/status', payload: 'old', retain: true }]);
  });
});
