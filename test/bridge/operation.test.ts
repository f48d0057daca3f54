// What an operator sees: the configuration, health and metrics, an uplink that stands still, signals, and one folder for one
// bridge.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readConfig } from '../../broker-bridge/src/config.ts';
import { openSpool } from '../../broker-bridge/src/spool/spool.ts';
import { WorkerClock } from '../../broker-bridge/src/bridge/worker-link.ts';
import { makeCertificates } from '../../rig/certificates.ts';
import { bridgeEnvironment, BridgeProcess, makeSpoolDir } from '../../rig/services/processes.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { startAedes } from '../../rig/brokers/aedes.ts';
import { eventually } from '../../rig/changes.ts';

describe('configuration', () => {
  const complete = bridgeEnvironment({
    workerUrl: 'https://api.test/',
    mqttUrl: 'mqtts://b.test',
    spoolDir: makeSpoolDir(),
  });

  test('all problems are told at once, with what to do, and without the values of secrets', async () => {
    const bridge = new BridgeProcess({
      WORKER_URL: 'ftp://x',
      BRIDGE_SECRET: 'too-short-but-secret',
      MQTT_URL: 'mqtt://user:hidden@broker',
      MQTT_CERT_FILE: '/does/not/exist',
      MQTT_PROTOCOL: '4',
      HEALTH_PORT: '99999',
    });
    expect(await bridge.untilExit()).toBe(2);
    for (const name of [
      'WORKER_URL',
      'BRIDGE_SECRET',
      'BRIDGE_ID',
      'MQTT_URL',
      'MQTT_CERT_FILE',
      'MQTT_KEY_FILE',
      'MQTT_PROTOCOL',
      'SPOOL_DIR',
      'HEALTH_PORT',
    ]) {
      expect(bridge.stderr).toContain(name);
    }
    expect(bridge.stderr).not.toMatch(/too-short-but-secret|hidden/);
  });

  test('a complete one is read with its defaults', () => {
    expect(readConfig({ ...complete, MQTT_USERNAME: 'bridge', MQTT_PASSWORD: '', HEALTH_PORT: '' })).toMatchObject({
      workerUrl: 'https://api.test',
      mqtt: { clientId: 'latchwork-bridge', username: 'bridge', password: undefined, protocol: 'auto' },
      spool: { maxBytes: 1_073_741_824 },
      health: undefined,
      log: { level: 'info', format: 'json' },
    });
  });

  test('without a client id, one is made at the first start and kept', () => {
    const clientIdOf = (spoolDir: string): string => {
      const config = readConfig({ ...complete, MQTT_CLIENT_ID: '', MQTT_USERNAME: 'bridge', SPOOL_DIR: spoolDir });
      return 'problems' in config ? config.problems.join() : config.mqtt.clientId;
    };
    const [dir, otherDir] = [makeSpoolDir(), makeSpoolDir()];
    const made = clientIdOf(dir);
    expect(made).toMatch(/^latchwork-bridge-[0-9a-f]{32}$/);
    expect(clientIdOf(dir)).toBe(made);
    expect(clientIdOf(otherDir)).not.toBe(made);
    const file = join(dir, 'mqtt-client-id');
    expect(statSync(file).mode & 0o077).toBe(0);
    writeFileSync(file, '');
    expect(clientIdOf(dir)).toContain('mqtt-client-id cannot be used');
  });

  test('secrets are read from files, too', () => {
    const file = (text: string): string => {
      const path = join(makeSpoolDir(), 'secret');
      writeFileSync(path, text);
      return path;
    };
    const secret = 'a-bridge-secret-in-a-file-of-the-tests';
    const files = { BRIDGE_SECRET_FILE: file(`${secret}\n`), MQTT_USERNAME: 'b', MQTT_PASSWORD_FILE: file('hidden') };
    expect(readConfig({ ...complete, ...files, BRIDGE_SECRET: '' })).toMatchObject({
      bridgeSecret: secret,
      mqtt: { password: 'hidden' },
    });
    expect(readProblems(files)).toEqual([expect.stringMatching(/^BRIDGE_SECRET and BRIDGE_SECRET_FILE are both set/)]);
    const missing = { BRIDGE_SECRET: '', BRIDGE_SECRET_FILE: '/does/not/exist' };
    expect(readProblems(missing)[0]).toMatch(/^BRIDGE_SECRET_FILE cannot be read \(ENOENT\)/);
  });

  test('certificates that do not fit are found before anything is started', () => {
    const file = fileURLToPath(import.meta.url);
    const config = readConfig({ ...complete, MQTT_CERT_FILE: file, MQTT_KEY_FILE: file });
    expect(config).toMatchObject({ problems: [expect.stringContaining('cannot be used together')] });
  });

  function readProblems(environment: Record<string, string>): string[] {
    const config = readConfig({ ...complete, ...environment });
    return 'problems' in config ? config.problems : [];
  }

  test('no secret is sent readable to another machine, unless ALLOW_PLAINTEXT is 1', () => {
    const remote = { MQTT_URL: 'mqtt://b.test', WORKER_URL: 'http://api.test' };
    expect(readProblems(remote).map((problem) => problem.split(' ')[0])).toEqual(['WORKER_URL', 'MQTT_URL']);
    expect(readProblems({ ...remote, ALLOW_PLAINTEXT: '1' })).toEqual([]);
    expect(readProblems({ MQTT_URL: 'mqtt://b.test', WORKER_URL: 'http://localhost:8787' })).toHaveLength(1);
  });

  test.each(['://:hidden@host', '://hidden@host', '://name:hidden@host'])(
    'a user name or password in an address is refused and not told: %s',
    (rest) => {
      const problems = readProblems({ MQTT_URL: `mqtts${rest}`, WORKER_URL: `https${rest}` });
      expect(problems).toEqual([
        expect.stringMatching(/^WORKER_URL must not hold a user name or a password/),
        expect.stringMatching(/^MQTT_URL must not hold .*: put them into MQTT_USERNAME and MQTT_PASSWORD$/),
      ]);
      expect(problems.join()).not.toContain('hidden');
    },
  );

  describe('the file of authorities', () => {
    const { ca, serverKey } = makeCertificates('broker.test');
    const certificate = readFileSync(ca, 'utf8');
    const cutShort = certificate.slice(0, certificate.length / 2);

    function readProblemsOf(authorities: string | Buffer): string[] {
      const file = join(makeSpoolDir(), 'authorities');
      writeFileSync(file, authorities);
      return readProblems({ MQTT_CA_FILE: file });
    }

    test.each([
      ['one certificate', certificate],
      ['a bundle with comments', `# one\n${certificate}\n# two\n${certificate}`],
      ['lines that end as on Windows', certificate.replaceAll('\n', '\r\n')],
    ])('is taken: %s', (_, authorities) => {
      expect(readProblemsOf(authorities)).toEqual([]);
    });

    test.each([
      ['nothing', ''],
      ['garbage', 'garbage'],
      ['another form than PEM', Buffer.from(certificate.split('-----')[2]!, 'base64')],
      ['only a key', readFileSync(serverKey)],
      ['a certificate that is cut short', cutShort],
    ])('is refused where it holds no certificate: %s', (_, authorities) => {
      expect(readProblemsOf(authorities)).toEqual([
        expect.stringContaining('MQTT_CA_FILE does not begin with a certificate'),
      ]);
    });
  });
});

describe('a bridge that has not started yet', () => {
  const environment = (spoolDir: string): Record<string, string> =>
    bridgeEnvironment({ workerUrl: 'http://127.0.0.1:1', mqttUrl: 'mqtt://127.0.0.1:1', spoolDir });

  test.each([
    ['SIGTERM', 'SIGTERM', (bridge: BridgeProcess) => bridge.child.kill('SIGTERM')],
    ['SIGINT', 'SIGINT', (bridge: BridgeProcess) => bridge.child.kill('SIGINT')],
    ['the end of its parent', 'the parent is gone', (bridge: BridgeProcess) => bridge.child.disconnect()],
  ])('does not wait for its spool folder any longer after %s', async (_, why, act) => {
    const spoolDir = makeSpoolDir();
    const ignore = (): void => undefined;
    const log = { debug: ignore, info: ignore, warn: ignore, error: ignore };
    const { spool } = await openSpool({ dir: spoolDir, maxBytes: 262_144, bridgeId: 'bridge-1', log });
    const bridge = new BridgeProcess(environment(spoolDir));
    await bridge.untilLogged('starting');
    act(bridge);
    // The folder stays in use until the bridge has left: it ends without having got it.
    expect(await bridge.untilExit()).toBe(0);
    expect(bridge.lines.map(({ message }) => message)).toEqual(['starting', 'leaving']);
    expect(bridge.lines.at(-1)).toMatchObject({ why });
    await spool.close();
  });

  test('whose disk does not let it open its spool ends as one that is to be started again', async () => {
    await using rig = await BridgeRig.start(await startAedes());
    const path = join(rig.spoolDir, 'spool.sqlite');
    mkdirSync(path);
    const bridge = rig.startBridge();
    const { cause, alarm } = await bridge.untilLogged('the spool cannot be opened: messages wait at the broker');
    expect([cause, alarm]).toEqual([expect.stringContaining(`${path} cannot be opened`), true]);
    expect(await bridge.untilExit()).toBe(1);
  });

  test('says on an older Node which one it needs', () => {
    const older = "Object.create(process, { versions: { value: { node: '20.20.2' } } })";
    const script = `globalThis.process = ${older}; await import('./broker-bridge/start.js'); process.exit()`;
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([2, 'the bridge needs Node 24 or newer, and this is Node 20.20.2\n']);
  });
});

test('of the Worker’s clock the quickest frame counts, and half of the quickest round trip', () => {
  const clock = new WorkerClock();
  expect(clock.nowMs(1000)).toBe(1000);
  clock.noteFrame(61_000 - 400, 1000);
  clock.noteFrame(71_000 - 20, 11_000);
  clock.noteFrame(81_000 - 90, 21_000);
  expect(clock.nowMs(21_000)).toBe(81_000 - 20);
  clock.noteRoundTrip(90);
  clock.noteRoundTrip(40);
  clock.noteRoundTrip(300);
  expect(clock.nowMs(21_000)).toBe(81_000);
});

describe('a running bridge', () => {
  let rig: BridgeRig<Awaited<ReturnType<typeof startAedes>>>;
  let bridge: BridgeProcess;
  beforeEach(async () => {
    rig = await BridgeRig.start(await startAedes());
  });
  afterEach(() => rig.close());

  async function start(environment: Record<string, string> = {}): Promise<void> {
    bridge = rig.startBridge({ ...rig.health, ...environment });
    await bridge.untilLogged('health is served');
  }
  const readState = async () => JSON.parse((await bridge.ask('/readyz')).text) as unknown;
  const untilReady = (isReady: boolean): Promise<void> =>
    eventually(isReady ? 'ready' : 'not ready', async () => ((await bridge.ask('/readyz')).status === 200) === isReady);

  test('is ready only while the link stands and the broker has subscribed it', async () => {
    rig.worker.assignRole = () => 'standby';
    await start();
    expect((await bridge.ask('/healthz')).status).toBe(200);
    await untilReady(true);
    expect(await readState()).toMatchObject({ role: 'standby', broker: 'disconnected' });
    await rig.broker.stop();
    rig.worker.setRole('bridge-1', 'active');
    await untilReady(false);
    expect(await readState()).toMatchObject({ link: 'connected', broker: 'disconnected' });
    rig.broker = await startAedes(rig.broker.port);
    await untilReady(true);
    await rig.worker.stop();
    await untilReady(false);
    expect((await bridge.ask('/healthz')).status).toBe(200);
    expect((await bridge.ask('/nowhere')).status).toBe(404);
  });

  test('counts what it does', async () => {
    await start();
    await rig.worker.untilActive();
    const device = await rig.connectDevice('d1');
    await device.report('x');
    await rig.worker.changes.until('the report', () => rig.worker.effects.length === 1);
    rig.worker.publish({ id: 'c1', topic: 'a/b' });
    rig.worker.publish({ id: 'c2', topic: 'a/#' });
    for (const id of ['c1', 'c2']) await rig.worker.answerTo(id);
    const expected = [
      'bridge_spool_depth 0',
      'bridge_messages_received_total 1',
      'bridge_batches_total{outcome="answered"} 1',
      'bridge_items_total{result="accepted"} 1',
      'bridge_commands_total{outcome="published"} 1',
      'bridge_commands_total{outcome="invalid"} 1',
      'bridge_last_worker_status 200',
      'bridge_broker_connected 1',
      'bridge_link_connected 1',
      'bridge_active 1',
      'bridge_dead_letters_total 0',
      'bridge_unacknowledged 0',
    ];
    await eventually('the expected metrics', async () => {
      const lines = (await bridge.ask('/metrics')).text.split('\n');
      return expected.every((line) => lines.includes(line));
    });
  });

  test('with a secret that the Worker refuses it says so, is not ready, and does not tell the secret', async () => {
    const wrong = 'a-wrong-secret-that-must-never-be-written-anywhere';
    await start({ BRIDGE_SECRET: wrong });
    const line = await bridge.untilLogged('no link to the Worker');
    expect(line).toMatchObject({ level: 'error', alarm: true, cause: 'status 401' });
    expect((await bridge.ask('/readyz')).status).toBe(503);
    const metrics = (await bridge.ask('/metrics')).text;
    expect(JSON.stringify(bridge.lines) + metrics + bridge.stderr).not.toContain(wrong);
  });

  test('a subscription that the broker refuses is an alarm, and not ready', async () => {
    rig.broker.aedes.authorizeSubscribe = (_client, subscription, callback) =>
      callback(null, subscription.topic.endsWith('/status') ? null : subscription);
    await start();
    const line = await bridge.untilLogged('the broker refuses a subscription: messages of devices do not arrive');
    expect(line).toMatchObject({ alarm: true, filters: '/sys/+/+/status' });
    expect((await bridge.ask('/readyz')).status).toBe(503);
  });

  test('an uplink that stands still is in readiness, metrics, log and with the Worker; and so is that it moves again', async () => {
    const stalls = () => rig.worker.frames.flatMap((frame) => (frame.type === 'uplink' ? [frame.stall] : []));
    await start({ UPLINK_STALLED_AFTER_SECONDS: '1' });
    await bridge.untilReady();
    rig.worker.setFaults({ status: 503 });
    const device = await rig.connectDevice('d1');
    await device.report('1');
    await untilReady(false);
    expect(await readState()).toMatchObject({
      ready: false,
      uplink: 'stalled',
      uplinkReason: 'worker_unavailable',
      uplinkStalledSeconds: expect.any(Number) as number,
    });
    expect((await bridge.ask('/metrics')).text).toMatch(/^bridge_uplink_stalled_seconds [1-9]/m);
    expect(await bridge.untilLogged('the uplink stands still: messages wait in the spool')).toMatchObject({
      alarm: true,
      reason: 'worker_unavailable',
    });
    const isTold = () => stalls().at(-1)?.reason === 'worker_unavailable';
    await rig.worker.changes.until('the Worker told', isTold);
    rig.worker.cutLinks();
    await rig.worker.changes.until('the link is back', () => rig.worker.bridges.size === 0);
    await rig.worker.changes.until('the Worker told again', () => rig.worker.bridges.size > 0 && isTold());
    rig.worker.setFaults({});
    await rig.worker.untilEffects('1');
    await untilReady(true);
    await rig.worker.changes.until('the Worker told of the end', () => stalls().at(-1) === null);
  });

  test('a second bridge on the same spool folder waits until the first has left', async () => {
    await start();
    await bridge.untilLogged('spool opened');
    const successor = rig.startBridge();
    await bridge.kill('SIGTERM');
    await successor.untilLogged('spool opened');
    await rig.worker.untilActive();
  });

  test('a second signal ends it at once', async () => {
    rig.worker.setFaults({ isHanging: true });
    await start();
    await rig.worker.untilActive();
    const device = await rig.connectDevice('d1');
    await device.report('x');
    await rig.worker.changes.until('a request', () => rig.worker.requests > 0);
    bridge.child.kill('SIGTERM');
    await bridge.untilLogged('leaving');
    expect(bridge.hasExited).toBe(false);
    bridge.child.kill('SIGINT');
    expect(await bridge.untilExit()).toBe(1);
  });

  test('it tells its parent how it is, and goes when the parent is gone', async () => {
    await start();
    await rig.worker.untilActive();
    await bridge.changes.until('connected', () => bridge.states.at(-1)?.['broker'] === 'connected');
    expect(bridge.states[0]).toEqual({ type: 'state', broker: 'disconnected', link: 'disconnected', role: null });
    expect(bridge.states.at(-1)).toEqual({ type: 'state', broker: 'connected', link: 'connected', role: 'active' });
    bridge.child.disconnect();
    expect(await bridge.untilExit()).toBe(0);
  });
});
