// B8: what a thousand devices whose schedules are due at the same time cost the commands of another user, with the jitter that a
// schedule has by default. Each press and each command is accounted for.
import { setTimeout as sleep } from 'node:timers/promises';
import { connectAsync } from 'mqtt';
import { putSchedule } from '../client/src/schedules.ts';
import { activateMany, addProduct, signUp } from '../rig/clients/accounts.ts';
import { connectApi } from '../rig/clients/api.ts';
import { loadHttp } from './parts/http-load.ts';
import type { BenchResult } from './parts/results.ts';
import { BenchRig } from './parts/rig.ts';
import { compareSides, measuresOf, type Benchmark, type BenchOptions } from './parts/rounds.ts';
import { percentile } from './parts/statistics.ts';
import { carryOut, TimedCommands } from './parts/timed-commands.ts';

const deviceCount = 1_000;
const quickDevices = 20;
const everyMs = 40;
/** Schedules are made at so many connections, and due when all are made. */
const connections = 8;
const restMs = 2_000;
const quietMs = 30_000;
const recurring = { at: '00:00', zone: 'UTC', enabled: false, command: { action: 'trigger' } } as const;

export const schedules: Benchmark = { name: 'B8', variants: [], measure };

async function measure(options: BenchOptions): Promise<BenchResult> {
  const { isQuick, keep } = options;
  const rig = await keep(BenchRig.start({ deviceCount: 1, vars: { MQTT_KEEP_ALIVE_SECONDS: '3600' } }));
  await rig.startBridge();
  const owner = await signUp((credentials) => connectApi(rig.worker.url, credentials));
  const { api, token } = owner;
  const serials = Array.from({ length: isQuick ? quickDevices : deviceCount }, (_, index) => `FLEET-${index}`);
  const fleet = await activateMany(api, await addProduct(owner), serials);
  const [device] = rig.devices;
  const [first] = fleet;
  if (device === undefined || first === undefined) throw new Error('no device');
  const heard = new Map<string, number>();
  const client = await connectAsync(rig.broker.url, { protocolVersion: 4, reconnectPeriod: 0 });
  await keep({ stop: () => client.endAsync(true) });
  await carryOut(client, [device, ...fleet], (topic) => heard.set(topic, (heard.get(topic) ?? 0) + 1));
  // Online from now on: one that comes back is sent again what waits for it.
  const payload = JSON.stringify({ method: 'thing.event.property.post', id: '0', params: { position: 'down' } });
  await Promise.all(fleet.map(({ topics }) => client.publishAsync(topics.propertyPost, payload, { qos: 1 })));
  const { jitterSeconds } = await putSchedule(api, first.deviceId, recurring);
  const commands = await TimedCommands.open(rig);
  const failures: string[] = [];
  /** Commands at a steady pace, the 95th percentile of their times. */
  const timeCommands = async (lastsMs: number): Promise<number> => {
    const untilMs = performance.now() + lastsMs;
    const timesMs: number[] = [];
    while (performance.now() < untilMs) {
      const nextAtMs = performance.now() + everyMs;
      const ms = await commands.send(device);
      if (ms === null) failures.push('a report did not arrive');
      else timesMs.push(ms);
      await sleep(Math.max(0, nextAtMs - performance.now()));
    }
    return percentile(timesMs, 95);
  };
  let isUp = false;
  const run = async (side: 'quiet' | 'schedules'): Promise<number> => {
    if (side === 'quiet') return timeCommands(quietMs);
    isUp = !isUp;
    const command = { action: 'toggle', position: isUp ? 'up' : 'down' };
    // Time enough to make them all.
    const dueAtMs = Date.now() + fleet.length * 20 + 5_000;
    const body = { at: new Date(dueAtMs).toISOString(), jitterSeconds, command };
    const requests = fleet.map(({ deviceId }) => {
      return { path: `/api/v1/devices/${deviceId}/schedules`, token, expected: 'scheduleId', body };
    });
    const { problems } = await loadHttp(rig.worker.port, connections, requests, requests.length);
    failures.push(...problems);
    if (Date.now() > dueAtMs - restMs / 2) throw new Error('the schedules were made too slowly');
    heard.clear();
    await sleep(dueAtMs - Date.now());
    const p95 = await timeCommands(jitterSeconds * 1000);
    await sleep(restMs);
    const wrong = fleet.filter(({ topics }) => heard.get(topics.propertySet) !== 1);
    if (wrong.length > 0) failures.push(`${wrong.length} did not press, or more than once`);
    return p95;
  };
  const times = await compareSides('B8', ['quiet', 'schedules'], options, run, (ms) => `p95 ${ms.toFixed(1)} ms`);
  const added = times.schedules.map((ms, round) => ms - (times.quiet[round] ?? 0));
  return {
    title: 'commands of another user while many schedules are due',
    settings: [
      `${fleet.length} one-shots due at the same time, ${jitterSeconds} s of jitter as recurring ones have by default; each device reports`,
      `a command every ${everyMs} ms of another user until its report is on the relay, for ${quietMs / 1000} s without schedules and from the due time on`,
    ],
    measures: [{ name: 'p95, added', unit: 'ms', perRound: added, target: { atMost: 5 } }, ...measuresOf(times, 'ms')],
    failures,
  };
}
