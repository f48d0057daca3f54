// `node bench/server-hour.ts`: a server of one's own as `npm run serve` runs it, with production limits and a site of directly connected
// devices behind one address, for a time; then it is started again, and the devices come back. Prints what it needs. Judges nothing.
import { readdirSync, statSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import mqtt, { type MqttClient } from 'mqtt';
import { type Activation, activate, addProduct, sendCommand, type Session, signUp } from '../rig/clients/accounts.ts';
import { ApiError, connectApi, describeFailure } from '../rig/clients/api.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { membersOfGroup, readIfThere } from '../rig/process-group.ts';
import { prepareServer, ServerRun } from '../rig/services/server-run.ts';
import { propertyPostMethod, propertySetReplyMethod } from '../src/protocol/mqtt.ts';
import { readCpuMicroseconds } from './parts/cpu-time.ts';
import { describeMachine } from './parts/machine.ts';

const usage = `Usage: node bench/server-hour.ts [options]

  --devices N  directly connected devices behind one address, each with a report every 30 s (1000)
  --minutes M  how long they stay before the server is started again (60)`;

const reportEveryMs = 30_000;
const commandEveryMs = 2_000;
/** As boards do (field note 8). */
const retryMs = 5_000;

const wanted = { devices: { type: 'string', default: '1000' }, minutes: { type: 'string', default: '60' } } as const;
const { count, minutes } = readCommandLine(
  { name: 'node bench/server-hour.ts', usage, options: wanted },
  ({ values }) => ({ count: Number(values.devices), minutes: Number(values.minutes) }),
);
const counts = { reports: 0, lost: 0, commands: 0, refused: 0, replies: 0, failedLogins: 0 };
/** From the request to the reply in the device, in milliseconds, since the last line. */
let commandMs: number[] = [];
const sentAtMs = new Map<string, number>();

console.log(describeMachine());
const dataDir = await prepareServer();
let server = await ServerRun.start(dataDir);
const stop = (): void => void server.kill('SIGTERM').finally(() => process.exit(130));
process.once('SIGINT', stop);
process.once('SIGTERM', stop);
server.child.once('exit', (code) => console.log(`the server ended with ${code}`));

const owner = await signUp((credentials) => connectApi(server.url, credentials));
const productKey = await addProduct(owner);
const startedAtMs = performance.now();
const activations: Activation[] = [];
const devices: MqttClient[] = [];
for (let number = 0; number < count; number += 8) {
  const serials = Array.from({ length: Math.min(8, count - number) }, (_, index) => `HOUR-${number + index}`);
  const activated = await Promise.all(serials.map(activatePatiently));
  activations.push(...activated);
  // At once, as boards do: an address may have no more than 200 devices that were never connected.
  devices.push(...activated.map(connectDevice));
}
await untilOnline(startedAtMs, 'activated and connected');
await runFor(minutes * 60_000);

const restartedAtMs = performance.now();
await server.kill('SIGTERM');
console.log(`stopped in ${secondsSince(restartedAtMs)} s`);
counts.failedLogins = 0;
server = await ServerRun.start(dataDir);
console.log(`serving again ${secondsSince(restartedAtMs)} s after the signal`);
await untilOnline(restartedAtMs, 'back after the restart');
console.log(
  `${counts.failedLogins} attempts of devices were refused or broke off, most while nothing listened. Of the gateway since then:`,
);
const metrics = await (await fetch(`http://127.0.0.1:${server.settings['HEALTH_PORT']}/metrics`)).text();
const shown =
  /^gateway_(worker_refusals_total|connections_closed_total|connections_refused_total|connect_seconds_(sum|count))/;
for (const line of metrics.split('\n')) if (shown.test(line) && !line.endsWith(' 0')) console.log(`  ${line}`);
for (const device of devices) device.end(true);
await server.kill('SIGTERM');
process.exit(0);

/** Tries again as boards do: an address may activate 300 new devices a minute, and a busy machine answers late. */
async function activatePatiently(serial: string): Promise<Activation> {
  for (;;) {
    try {
      return await activate(connectApi(server.url), productKey, serial);
    } catch (error) {
      if (error instanceof ApiError && error.code !== 429) throw error;
      await sleep(retryMs);
    }
  }
}

function connectDevice({ mqtt: login, topics, deviceId }: Activation): MqttClient {
  const { username, password, clientId } = login;
  const client = mqtt.connect(server.mqttUrl, {
    username,
    password,
    clientId,
    reconnectPeriod: retryMs,
    reconnectOnConnackError: true,
    keepalive: 60,
  });
  client.on('error', () => (counts.failedLogins += 1));
  client.on('connect', () => client.subscribe(topics.propertySet, { qos: 1 }));
  client.on('message', (_topic, payload) => {
    const { id } = JSON.parse(payload.toString()) as { id: string };
    const startedMs = sentAtMs.get(deviceId);
    if (startedMs !== undefined) commandMs.push(performance.now() - startedMs);
    counts.replies += 1;
    publish({ method: propertySetReplyMethod, id, code: 200 });
  });
  // Spread over the time between two reports.
  setTimeout(() => setInterval(report, reportEveryMs), Math.random() * reportEveryMs);
  return client;

  function report(): void {
    if (!client.connected) return;
    publish({ method: propertyPostMethod, id: '1', params: { rssi: -40 - Math.round(Math.random() * 40) } });
  }

  function publish(body: object): void {
    client.publish(topics.propertyPost, JSON.stringify(body), { qos: 1 }, (error) => {
      counts[error ? 'lost' : 'reports'] += 1;
    });
  }
}

async function untilOnline(sinceMs: number, what: string): Promise<void> {
  const marks = [0.5, 0.9, 0.99, 1];
  while (marks.length > 0) {
    const connected = devices.filter(({ connected }) => connected).length;
    while (marks[0] !== undefined && connected >= marks[0] * count) {
      console.log(`${connected} devices ${what} after ${secondsSince(sinceMs)} s, ${describeLoads()}`);
      marks.shift();
    }
    await sleep(100);
  }
}

async function runFor(durationMs: number): Promise<void> {
  const commanding = setInterval(() => void command(owner), commandEveryMs);
  const everyMs = Math.min(60_000, durationMs / 4);
  console.log(
    'minute online | MB: workerd worker gateway server | files: workerd gateway | disk MB | cpu %: worker gateway | ' +
      'reports lost | commands refused replies, ms median worst | load',
  );
  let before = readCpu();
  for (let atMs = everyMs; atMs <= durationMs; atMs += everyMs) {
    const sinceMs = performance.now();
    await sleep(everyMs);
    const [now, tookMs] = [readCpu(), performance.now() - sinceMs];
    const [worker, gateway] = (['worker', 'gateway'] as const).map((part) => (now[part] - before[part]) / tookMs / 10);
    before = now;
    const times = commandMs.sort((a, b) => a - b);
    commandMs = [];
    console.log(
      `${(atMs / 60_000).toFixed(1).padStart(5)} ${devices.filter(({ connected }) => connected).length}` +
        ` | ${['workerd', 'worker', 'gateway', 'server'].map((name) => memoryOf(name)).join(' ')}` +
        ` | ${filesOf('workerd')} ${filesOf('gateway')} | ${(sizeOf(dataDir) / 1e6).toFixed(0)}` +
        ` | ${worker?.toFixed(1)} ${gateway?.toFixed(1)} | ${counts.reports} ${counts.lost}` +
        ` | ${counts.commands} ${counts.refused} ${counts.replies}, ${msOf(times, 0.5)} ${msOf(times, 1)} | ${describeLoads()}`,
    );
  }
  clearInterval(commanding);
}

async function command({ api }: Session): Promise<void> {
  const device = activations[Math.floor(Math.random() * activations.length)];
  if (device === undefined) return;
  sentAtMs.set(device.deviceId, performance.now());
  counts.commands += 1;
  await sendCommand(api, device, { action: 'toggle', position: 'up' }).catch((error: unknown) => {
    counts.refused += 1;
    console.log(`a command failed: ${describeFailure(error)}`);
  });
  sentAtMs.delete(device.deviceId);
}

function readCpu(): Record<'worker' | 'gateway', number> {
  const { worker, gateway } = server.parts;
  return { worker: readCpuMicroseconds(worker?.pid ?? 0), gateway: readCpuMicroseconds(gateway?.pid ?? 0) };
}

function pidOf(name: string): number {
  if (name === 'server') return server.pid;
  if (name !== 'workerd') return server.parts[name]?.pid ?? 0;
  return membersOfGroup(server.parts['worker']?.pid ?? 0).find((member) => member.name === 'workerd')?.pid ?? 0;
}

function memoryOf(name: string): string {
  const [, kilobytes = '0'] = /^VmRSS:\s+(\d+)/m.exec(readIfThere(`/proc/${pidOf(name)}/status`)) ?? [];
  return (Number(kilobytes) / 1024).toFixed(0);
}

function filesOf(name: string): number {
  return readdirSync(`/proc/${pidOf(name)}/fd`).length;
}

function sizeOf(folder: string): number {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return paths.reduce((sum, path) => sum + (statSync(join(folder, path), { throwIfNoEntry: false })?.size ?? 0), 0);
}

function msOf(sorted: number[], share: number): string {
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN).toFixed(0);
}

function secondsSince(atMs: number): string {
  return ((performance.now() - atMs) / 1000).toFixed(1);
}

function describeLoads(): string {
  return `load ${loadavg()[0]?.toFixed(1) ?? ''}`;
}
