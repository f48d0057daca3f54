// A server of one's own, as an operator and systemd meet it: the real command on free ports with a folder of its own.
import { execFileSync, spawn } from 'node:child_process';
import { appendFileSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { connectAsync } from 'mqtt';
import { afterEach, expect, test, vi } from 'vitest';
import { type Certificates, makeCertificates } from '../../rig/certificates.ts';
import { eventually } from '../../rig/changes.ts';
import { activate, addProduct, sendCommand, signUp } from '../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../rig/clients/api.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';
import { findFreePort } from '../../rig/ports.ts';
import { groupMembers } from '../../rig/services/local-run.ts';
import { prepareServer, serveOnce, ServerRun } from '../../rig/services/server-run.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';

const runs: ServerRun[] = [];

async function start(...given: Parameters<typeof ServerRun.start>): Promise<ServerRun> {
  const run = await ServerRun.start(...given);
  runs.push(run);
  return run;
}

afterEach(async () => {
  for (const run of runs.splice(0)) await run.kill('SIGTERM');
});

const modeOf = (path: string) => statSync(path).mode & 0o777;
const secretsOf = (dataDir: string) => parseEnv(readFileSync(join(dataDir, 'secrets.env'), 'utf8'));

test('init makes a private folder once; what it finds stays, and a secret that is missing is added', async () => {
  const dataDir = await prepareServer();
  expect([dataDir, join(dataDir, 'settings.env'), join(dataDir, 'secrets.env')].map(modeOf)).toEqual([
    0o700, 0o600, 0o600,
  ]);
  const { GATEWAY_SECRETS, ...others } = secretsOf(dataDir);
  const settings = readFileSync(join(dataDir, 'settings.env'), 'utf8');
  const lines = Object.entries(others).map(([name, secret]) => `${name}=${secret}\n`);
  writeFileSync(join(dataDir, 'secrets.env'), `# mine\n${lines.join('')}MAIL_SECRET=kept`);

  expect(serveOnce(['init', '--host', 'another.example', '--data', dataDir])).toMatchObject({ status: 0 });
  expect(secretsOf(dataDir)).toEqual({
    ...others,
    MAIL_SECRET: 'kept',
    GATEWAY_SECRETS: expect.stringMatching(/^.{43}$/) as string,
  });
  expect(secretsOf(dataDir)['GATEWAY_SECRETS']).not.toBe(GATEWAY_SECRETS);
  expect(readFileSync(join(dataDir, 'secrets.env'), 'utf8')).toMatch(/^# mine\n/);
  expect(readFileSync(join(dataDir, 'settings.env'), 'utf8')).toBe(settings);
});

test('run refuses what a server must not do, all of it at once, and says what to do', async () => {
  const dataDir = await prepareServer();
  const problemsOf = (env: Record<string, string> = {}) => {
    const { status, output } = serveOnce(['--data', dataDir], env);
    expect(status, output).toBe(2);
    return output.trim().split('\n');
  };
  const env = {
    RATE_LIMITS: 'relaxed',
    WEBHOOKS_MAY_BE_LOCAL: 'true',
    HTTPS_PORT: '8443',
    MQTT_HOST: 'a b',
    LIMITS: 'x=1',
  };
  expect(problemsOf({ ...env, API_PORT: '0.0.0.0:80', GATEWAY_PORT: 'of' })).toEqual([
    'API_PORT is "0.0.0.0:80": give a port of this machine from 1 to 65535',
    'GATEWAY_PORT is "of": give a port of this machine from 1 to 65535, or off',
    expect.stringMatching(/^TLS_CERT_FILE or TLS_KEY_FILE is missing: HTTPS_PORT/),
    expect.stringMatching(/^RATE_LIMITS is relaxed/),
    expect.stringMatching(/^WEBHOOKS_MAY_BE_LOCAL is true/),
    expect.stringMatching(/^MQTT_HOST is the bare host name/),
    expect.stringMatching(/^LIMITS /),
  ]);
  expect(problemsOf({ GATEWAY_TLS_PORT: '8883', TLS_CERT_FILE: '/none.pem', TLS_KEY_FILE: '/none.key' })).toEqual([
    expect.stringMatching(/^TLS_CERT_FILE and TLS_KEY_FILE cannot be used together: ENOENT/),
  ]);

  const secrets = join(dataDir, 'secrets.env');
  const whole = readFileSync(secrets, 'utf8');
  writeFileSync(
    secrets,
    whole.replace(/^SEALING_SECRETS=.*$/m, 'SEALING_SECRETS=short').replace(/^OPERATOR_SECRETS=.*\n/m, ''),
  );
  appendFileSync(join(dataDir, 'settings.env'), 'MAIL_ULR=https://mail.example\n');
  const problems = problemsOf();
  expect(problems).toEqual([
    expect.stringMatching(/^MAIL_ULR in settings.env is no setting/),
    expect.stringMatching(/^OPERATOR_SECRETS is missing in secrets.env/),
    expect.stringMatching(/^SEALING_SECRETS each secret needs 32 characters/),
  ]);
  expect(problems.join()).not.toContain('short,');
  rmSync(secrets);
  expect(problemsOf()).toEqual([expect.stringMatching(/secrets.env is missing: npm run serve -- init/)]);
  expect(serveOnce([])).toMatchObject({
    status: 2,
    output: expect.stringMatching(/--data DIR.* is missing/) as string,
  });
});

test('a server runs with production limits, tells systemd, heals and stops; its output is JSON lines alone', async () => {
  const dataDir = await prepareServer();
  const systemd = await FakeSystemd.listen();
  const run = await start(dataDir, { NOTIFY_SOCKET: systemd.path, SCHEDULE_SECONDS: '1' });
  await systemd.untilTold('READY=1');
  expect(Object.keys(run.parts).sort()).toEqual(['gateway', 'worker']);
  const page = await fetch(`${run.url}/`);
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<title>')]);

  const owner = await signUp((credentials) => connectApi(run.url, credentials));
  const device = await activate(connectApi(run.url), await addProduct(owner), 'SN-1');
  expect(device.mqtt).toMatchObject({ server: '127.0.0.1', port: Number(run.settings['GATEWAY_PORT']) });
  const { username, password, clientId } = device.mqtt;
  const board = await connectAsync(run.mqttUrl, {
    username,
    password,
    clientId,
    reconnectPeriod: 100,
    reconnectOnConnackError: true,
  });
  const heard: string[] = [];
  board.on('error', () => undefined);
  board.on('message', (topic) => heard.push(topic));
  board.on('connect', () => board.subscribe(device.topics.propertySet, { qos: 1 }));
  await board.subscribeAsync(device.topics.propertySet, { qos: 1 });
  /** Of the commands that a device without its subscription misses none is sent again. */
  const isObeyed = () =>
    vi.waitFor(
      async () => {
        await sendCommand(owner.api, device, { action: 'toggle', position: 'up' });
        expect(heard).toContain(device.topics.propertySet);
      },
      { timeout: 180_000, interval: 250 },
    );
  await isObeyed();

  await eventually('the schedule has run', async () =>
    /^latchwork_scheduled_job_age_seconds\{.*\} \d/m.test(await run.readMetrics()),
  );
  const wrong = Array.from({ length: 61 }, () =>
    fetch(`${run.url}/api/v1/users/login`, { method: 'POST', body: '{}' }),
  );
  expect((await Promise.all(wrong)).map(({ status }) => status)).toContain(429);

  for (const part of ['worker', 'gateway']) {
    const before = run.parts[part]!.pid;
    process.kill(before, 'SIGKILL');
    await run.changes.until(`another ${part}`, () => run.parts[part]?.pid !== before);
    heard.length = 0;
    await isObeyed();
    expect((await dataOf(owner.api.devices[':deviceId'].status.$get({ param: device }))).online).toBe(true);
  }
  await board.endAsync(true);

  const rival = serveOnce(['--data', dataDir]);
  expect([rival.status, rival.output]).toEqual([1, expect.stringMatching(/already runs with .* \(pid \d+\)/)]);

  const groups = Object.values(run.parts).map(({ pid }) => pid);
  expect(groupMembers(groups).some((process) => process.includes('workerd'))).toBe(true);
  expect(await run.kill('SIGTERM')).toBe(0);
  await systemd.untilTold('STOPPING=1');
  systemd.close();
  expect(groupMembers(groups)).toEqual([]);
  expect(
    run.lines.every(({ part, time, level }) => [part, time, level].every((text) => typeof text === 'string')),
  ).toBe(true);
  expect(run.output).not.toContain(run.operatorSecret);
});

test('systemd starts a server again whose Worker hangs: it hears no more of it', async () => {
  const systemd = await FakeSystemd.listen();
  const run = await start(await prepareServer(), { NOTIFY_SOCKET: systemd.path, WATCHDOG_USEC: '4000000' });
  await systemd.untilTold('WATCHDOG=1');
  process.kill(-run.parts['worker']!.pid, 'SIGSTOP');
  const before = systemd.countOf('WATCHDOG=1');
  await run.untilLogged('worker_silent');
  expect(systemd.countOf('WATCHDOG=1')).toBeLessThanOrEqual(before + 1);
  process.kill(-run.parts['worker']!.pid, 'SIGCONT');
  systemd.close();
});

test('too few open files for the devices is an alarm, and parts get the hard limit', async () => {
  const dataDir = await prepareServer();
  const run = await start(dataDir, {}, ['prlimit', '--nofile=256:400']);
  expect(await run.untilLogged('open_files_limit_too_low')).toMatchObject({
    ...{ level: 'error', alarm: true, limit: 400, need: 500, devices: 0 },
    remedy: expect.stringContaining('LimitNOFILE=500') as string,
  });
  const limits = readFileSync(`/proc/${run.parts['worker']!.pid}/limits`, 'utf8');
  expect(limits).toMatch(/^Max open files +400 +400/m);
});

test.skipIf(mosquittoMissing !== null)(
  'with a broker named the bridge runs, and logs in with its password',
  async () => {
    const broker = await Mosquitto.start();
    const mqtt = { MQTT_URL: `mqtt://127.0.0.1:${broker.port}`, GATEWAY_PORT: 'off' };
    const run = await start(await prepareServer(mqtt));
    expect(Object.keys(run.parts).sort()).toEqual(['bridge', 'worker']);
    const headers = { Authorization: `Bearer ${run.operatorSecret}` };
    await eventually(
      'the bridge and its broker',
      async () => (await fetch(`${run.url}/health`, { headers })).status === 200,
    );
    await run.kill('SIGTERM');
    await broker.stop();
  },
);

test('the front takes a renewed certificate', async () => {
  const port = await findFreePort();
  const [first, second] = [makeCertificates('first.test'), makeCertificates('second.test')];
  const { serverCert, serverKey } = first;
  const tls = { HTTPS_PORT: String(port), TLS_CERT_FILE: serverCert, TLS_KEY_FILE: serverKey };
  const run = await start(await prepareServer(tls));
  const namesOf = (files: Certificates) => {
    const args = ['s_client', '-connect', `127.0.0.1:${port}`, '-CAfile', files.ca, '-verify_return_error'];
    return execFileSync('openssl', args, { input: '', encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] });
  };
  expect(namesOf(first)).toContain('CN = first.test');
  writeFileSync(serverCert, readFileSync(second.serverCert));
  writeFileSync(serverKey, readFileSync(second.serverKey));
  await vi.waitFor(() => expect(namesOf(second)).toContain('CN = second.test'));
  expect(run.hasExited).toBe(false);
});

test('the unit is one that systemd understands', () => {
  const root = join(import.meta.dirname, '../..');
  const unit = readFileSync(join(root, 'serve/latchwork.service'), 'utf8').replaceAll('/opt/latchwork', root);
  const path = join(makeTempDir('unit'), 'latchwork.service');
  writeFileSync(path, unit);
  expect(execFileSync('systemd-analyze', ['verify', '--man=no', path], { encoding: 'utf8' })).toBe('');
});

/** A datagram socket of Unix, which Node does not have, in the place of systemd's. */
class FakeSystemd {
  readonly path = join(makeTempDir('systemd'), 'notify');
  #told = '';
  readonly #child = spawn('python3', [
    '-uc',
    `import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("LISTENING")
while True: print(s.recv(4096).decode())`,
    this.path,
  ]);

  static async listen(): Promise<FakeSystemd> {
    const systemd = new FakeSystemd();
    systemd.#child.stdout.on('data', (chunk: Buffer) => (systemd.#told += chunk.toString()));
    await systemd.untilTold('LISTENING');
    return systemd;
  }

  countOf(state: string): number {
    return this.#told.split('\n').filter((line) => line === state).length;
  }

  async untilTold(state: string): Promise<void> {
    await eventually(
      () => `${state} is told: ${this.#told}`,
      () => this.countOf(state) > 0,
    );
  }

  close(): void {
    this.#child.kill();
  }
}
