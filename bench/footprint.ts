// B7: the size of the bundle, the processor time of its start, and how long the first push takes when a relay shard with a
// thousand sockets has slept.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { Activation } from '../rig/clients/accounts.ts';
import { bridgeSecret } from '../rig/services/bridge-process.ts';
import { buildOnce, startBuiltWorker } from '../rig/worker/built-worker.ts';
import { meteredFront, readMeter, resetMeter } from '../rig/worker/meter.ts';
import { findFreePort } from '../rig/ports.ts';
import { RelayClient } from '../rig/clients/relay-client.ts';
import { makeTempDir } from '../rig/temp-dirs.ts';
import { jwtSecrets, messagingSecret, WorkerRig } from '../rig/worker/worker-rig.ts';
import type { BenchResult } from './parts/results.ts';
import { takeTurns, type BenchOptions } from './parts/rounds.ts';

const socketCount = 1_000;
const quickSockets = 50;
const openAtOnce = 20;
/** An object whose sockets hibernate is put to sleep after ten seconds. */
const asleepAfterMs = 14_000;
/** Until then a shard looks after sockets that have not authenticated. */
const settledAfterMs = 11_000;
const nanosecondsAMs = 1e6;

const classes = [
  'BrokerLink',
  'DeviceSession',
  'FleetDirectory',
  'ProductPropagator',
  'ProjectionWriter',
  'RelayGateway',
];
const emptyWorker = [
  "import { DurableObject } from 'cloudflare:workers';",
  ...classes.map((name) => `export class ${name} extends DurableObject {}`),
  'export default { fetch: () => new Response(null, { status: 401 }) };',
].join('\n');

const limits = [
  'relaySocketsPerUser=30000',
  'relaySocketsPerAddress=30000',
  'relayUnauthenticatedPerAddress=30000',
  'relayUnauthenticatedPerShard=30000',
];

/** For the first push: counts when objects wake. */
export const footprintRig = { frontModule: meteredFront, vars: { LIMITS: limits.join(), SCHEDULE_SECONDS: '86400' } };

export const footprintVariants: readonly string[] = ['bundle', 'start-up', 'first push'];

export async function measureFootprint(rig: WorkerRig, options: BenchOptions): Promise<BenchResult> {
  const { isQuick, variant } = options;
  const result: BenchResult = {
    name: 'B7',
    title: 'bundle, start-up and wake-up',
    settings: [
      'bundle: the script that `wrangler deploy` uploads, compressed; start-up: processor time of workerd from its start to its first answer, less that of an empty Worker',
      `first push: of a report to ${isQuick ? quickSockets : socketCount} sockets of one shard, after ${asleepAfterMs / 1000} s of silence, less that of a report just before`,
    ],
    measures: [],
    failures: [],
  };
  const isWanted = (name: string): boolean => variant === null || variant === name;
  if (isWanted('bundle')) {
    const kibibytes = gzipSync(readFileSync(join(await buildOnce(), 'index.js'))).length / 1024;
    const judged = isQuick ? {} : { target: { atMost: 350 } };
    result.measures.push({ name: 'bundle', unit: 'KiB', perRound: [kibibytes], ...judged });
  }
  if (isWanted('start-up')) await measureStart(result, options);
  if (isWanted('first push')) await measureWake(rig, result, options);
  return result;
}

async function measureStart(result: BenchResult, { rounds, isQuick, say }: BenchOptions): Promise<void> {
  const emptyDir = join(makeTempDir('empty'), 'build');
  mkdirSync(emptyDir);
  writeFileSync(join(emptyDir, 'index.js'), emptyWorker);
  const dirs = { built: await buildOnce(), empty: emptyDir };
  const states = { built: makeTempDir('built'), empty: makeTempDir('empty-state') };
  const times: Record<keyof typeof dirs, number[]> = { built: [], empty: [] };
  const start = async (side: keyof typeof dirs): Promise<number> => {
    const port = await findFreePort();
    const bindings = { MQTT_HOST: '127.0.0.1', JWT_SECRETS: jwtSecrets, MESSAGING_SECRETS: messagingSecret };
    const worker = await startBuiltWorker({ buildDir: dirs[side], stateDir: states[side], port, bindings });
    try {
      await (await fetch(`${worker.url}/api/v1/devices`)).arrayBuffer();
      return readWorkerdMs(worker.pid);
    } finally {
      await worker.stop();
    }
  };
  // The first start of each makes its database.
  for (const side of ['built', 'empty'] as const) await start(side);
  for (let round = 0; round < rounds; round += 1) {
    await takeTurns(['built', 'empty'] as const, round, async (side) => {
      times[side].push(await start(side));
    });
    const shown = `${Math.round(times.built.at(-1) ?? 0)} ms, empty ${Math.round(times.empty.at(-1) ?? 0)} ms`;
    say(`B7 start-up, round ${round + 1}: ${shown}`);
  }
  const differences = times.built.map((ms, round) => ms - (times.empty[round] ?? 0));
  const judged = isQuick ? {} : { target: { atMost: 150 } };
  result.measures.push(
    { name: 'start-up', unit: 'ms CPU', perRound: differences, ...judged },
    { name: '  workerd with the service', unit: 'ms CPU', perRound: times.built },
    { name: '  workerd with an empty Worker', unit: 'ms CPU', perRound: times.empty },
  );
}

async function measureWake(rig: WorkerRig, result: BenchResult, options: BenchOptions): Promise<void> {
  const { rounds, isQuick, say } = options;
  const device = await rig.activate('WAKE');
  let onText: () => void = () => undefined;
  const clients: RelayClient[] = [];
  const open = async (): Promise<RelayClient> => {
    const client = await RelayClient.open(rig.url, {
      socket: { perMessageDeflate: false },
      onPushText: () => onText(),
    });
    await client.follow({ token: rig.owner.token }, [device.topics.propertyPost]);
    return client;
  };
  const sockets = isQuick ? quickSockets : socketCount;
  while (clients.length < sockets) clients.push(...(await Promise.all(Array.from({ length: openAtOnce }, open))));
  const times: Record<'awake' | 'asleep' | 'last', number[]> = { awake: [], asleep: [], last: [] };
  let seq = 0;
  const push = async (): Promise<{ firstMs: number; lastMs: number }> => {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const startedAtMs = performance.now();
    let arrived = 0;
    let firstMs = 0;
    onText = () => {
      arrived += 1;
      if (arrived === 1) firstMs = performance.now() - startedAtMs;
      if (arrived === clients.length) resolve(undefined);
    };
    await sendReport(rig.url, device, (seq += 1));
    await Promise.race([promise, sleep(30_000)]);
    if (arrived !== clients.length) result.failures.push(`first push: ${clients.length - arrived} pushes lost`);
    return { firstMs, lastMs: performance.now() - startedAtMs };
  };
  try {
    for (let warm = 0; warm < 3; warm += 1) await push();
    await sleep(settledAfterMs);
    for (let round = 0; round < rounds; round += 1) {
      times.awake.push((await push()).firstMs);
      await resetMeter(rig.url);
      await sleep(asleepAfterMs);
      const { firstMs, lastMs } = await push();
      times.asleep.push(firstMs);
      times.last.push(lastMs);
      const woken = (await readMeter(rig.url))['wakes RelayGateway'] ?? 0;
      if (woken === 0) result.failures.push(`first push, round ${round + 1}: the relay shard has not slept`);
      say(
        `B7 first push, round ${round + 1}: ${firstMs.toFixed(1)} ms, ${times.awake.at(-1)?.toFixed(1) ?? ''} ms awake`,
      );
    }
  } finally {
    for (const client of clients) client.terminate();
  }
  const judged = isQuick ? {} : { target: { atMost: 50 } };
  const added = times.asleep.map((ms, round) => ms - (times.awake[round] ?? 0));
  result.measures.push(
    { name: 'first push after sleep, added', unit: 'ms', perRound: added, ...judged },
    { name: '  first push, awake', unit: 'ms', perRound: times.awake },
    { name: '  first push after sleep', unit: 'ms', perRound: times.asleep },
    { name: '  last push after sleep', unit: 'ms', perRound: times.last },
  );
}

async function sendReport(workerUrl: string, { topics }: Activation, seq: number): Promise<void> {
  const nowMs = Date.now();
  const params = { position: 'up', wifi_rssi: -50 - (seq % 8) };
  const payload = JSON.stringify({ method: 'thing.event.property.post', id: String(seq), params });
  const items = [{ seq, topic: topics.propertyPost, payload, receivedAtMs: nowMs }];
  const response = await fetch(`${workerUrl}/bridge/uplink`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${bridgeSecret}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ spoolId: 'bench-wake', sentAtMs: nowMs, items }),
  });
  if (!response.ok) throw new Error(`the Worker does not take a report: ${await response.text()}`);
}

/** Processor time so far of workerd alone, of a group whose other process is Node. Linux only: 0 elsewhere. */
function readWorkerdMs(group: number): number {
  const isWorkerd = (pid: string): boolean => {
    try {
      const [head = '', tail = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
      return head.endsWith('(workerd') && tail.split(' ')[2] === String(group);
    } catch (error) {
      if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
      throw error;
    }
  };
  const pid = readdirSync('/proc').find((name) => /^\d+$/.test(name) && isWorkerd(name));
  if (pid === undefined) return 0;
  const threads = readdirSync(`/proc/${pid}/task`).map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
  );
  return threads.reduce((sum, one) => sum + one, 0) / nanosecondsAMs;
}
