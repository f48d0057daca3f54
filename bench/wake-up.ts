// B7: how long the first push takes when a relay shard with a thousand sockets has slept.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Activation } from '../rig/clients/accounts.ts';
import { bridgeSecret } from '../rig/services/processes.ts';
import { meteredFront, readMeter, resetMeter } from '../rig/worker/meter.ts';
import { RelayClient } from '../rig/clients/relay-client.ts';
import type { WorkerRig } from '../rig/worker/worker-rig.ts';
import type { BenchResult } from './parts/results.ts';
import type { BenchOptions } from './parts/rounds.ts';

const socketCount = 1_000;
const quickSockets = 50;
const openAtOnce = 20;
/** An object whose sockets hibernate is put to sleep after ten seconds. */
const asleepAfterMs = 14_000;
/** Until then a shard looks after sockets that have not authenticated. */
const settledAfterMs = 11_000;
const limits = ['relaySocketsPerUser=30000', 'relaySocketsPerAddress=30000'];

/** The front counts when objects wake. */
export const wakeUpRig = { frontModule: meteredFront, vars: { LIMITS: limits.join(), SCHEDULE_SECONDS: '86400' } };

export async function measureWakeUp(rig: WorkerRig, { rounds, isQuick, say }: BenchOptions): Promise<BenchResult> {
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
    if (arrived !== clients.length) failures.push(`first push: ${clients.length - arrived} pushes lost`);
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
      if (woken === 0) failures.push(`first push, round ${round + 1}: the relay shard has not slept`);
      say(
        `B7 first push, round ${round + 1}: ${firstMs.toFixed(1)} ms, ${times.awake.at(-1)?.toFixed(1) ?? ''} ms awake`,
      );
    }
  } finally {
    for (const client of clients) client.terminate();
  }
  const added = times.asleep.map((ms, round) => ms - (times.awake[round] ?? 0));
  return {
    name: 'B7',
    title: 'the first push after a sleep',
    settings: [
      `a report to ${sockets} sockets of one shard, after ${asleepAfterMs / 1000} s of silence, less that of a report just before`,
    ],
    measures: [
      { name: 'first push, added', unit: 'ms', perRound: added, ...(isQuick ? {} : { target: { atMost: 50 } }) },
      { name: '  awake', unit: 'ms', perRound: times.awake },
      { name: '  after sleep', unit: 'ms', perRound: times.asleep },
      { name: '  last push after sleep', unit: 'ms', perRound: times.last },
    ],
    failures,
  };
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
