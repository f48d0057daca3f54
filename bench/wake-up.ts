// B7: how long the first push takes when a relay shard with a thousand sockets has slept.
import { setTimeout as sleep } from 'node:timers/promises';
import { meteredFront, readMeter, resetMeter } from '../rig/worker/meter.ts';
import { RelayClient } from '../rig/clients/relay-client.ts';
import { WorkerRig } from '../rig/worker/worker-rig.ts';
import type { BenchResult } from './parts/results.ts';
import { measuresOf, type Benchmark, type BenchOptions } from './parts/rounds.ts';

const socketCount = 1_000;
const quickSockets = 50;
const openAtOnce = 20;
/** An object whose sockets hibernate is put to sleep after ten seconds. */
const asleepAfterMs = 14_000;
/** Until then a shard looks after sockets that have not authenticated. */
const settledAfterMs = 11_000;
const limits = ['relaySocketsPerUser=30000', 'relaySocketsPerAddress=30000'];

/** The front counts when objects wake. */
const rigOptions = { frontModule: meteredFront, vars: { LIMITS: limits.join(), SCHEDULE_SECONDS: '86400' } };

export const wakeUp: Benchmark = { name: 'B7', variants: [], measure };

async function measure({ rounds, isQuick, say, keep }: BenchOptions): Promise<BenchResult> {
  const rig = await keep(WorkerRig.start(rigOptions));
  const failures: string[] = [];
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
  const times: Record<'awake' | 'after sleep', number[]> = { awake: [], 'after sleep': [] };
  let sent = 0;
  /** Milliseconds until the first socket has it. */
  const push = async (): Promise<number> => {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const startedAtMs = performance.now();
    let arrived = 0;
    let firstMs = 0;
    onText = () => {
      arrived += 1;
      if (arrived === 1) firstMs = performance.now() - startedAtMs;
      if (arrived === clients.length) resolve(undefined);
    };
    const params = { position: 'up', wifi_rssi: -50 - (++sent % 8) };
    const payload = JSON.stringify({ method: 'thing.event.property.post', id: String(sent), params });
    await rig.sendBatch([{ topic: device.topics.propertyPost, payload }]);
    await Promise.race([promise, sleep(30_000)]);
    if (arrived !== clients.length) failures.push(`first push: ${clients.length - arrived} pushes lost`);
    return firstMs;
  };
  for (let warm = 0; warm < 3; warm += 1) await push();
  await sleep(settledAfterMs);
  for (let round = 0; round < rounds; round += 1) {
    const awakeMs = await push();
    await resetMeter(rig.url);
    await sleep(asleepAfterMs);
    const firstMs = await push();
    times.awake.push(awakeMs);
    times['after sleep'].push(firstMs);
    const woken = (await readMeter(rig.url))['wakes RelayGateway'] ?? 0;
    if (woken === 0) failures.push(`first push, round ${round + 1}: the relay shard has not slept`);
    say(`B7 first push, round ${round + 1}: ${firstMs.toFixed(1)} ms, ${awakeMs.toFixed(1)} ms awake`);
  }
  for (const client of clients) client.terminate();
  const added = times['after sleep'].map((ms, round) => ms - (times.awake[round] ?? 0));
  return {
    title: 'the first push after a sleep',
    settings: [
      `a report to ${sockets} sockets of one shard, after ${asleepAfterMs / 1000} s without any, less that of a report just before`,
    ],
    measures: [
      { name: 'first push, added', unit: 'ms', perRound: added, target: { atMost: 50 } },
      ...measuresOf(times, 'ms'),
    ],
    failures,
  };
}
