// B8: what a thousand devices whose schedules are due at the same time cost the commands of another user, with the jitter that a
// schedule has by default. Each press and each command is accounted for.
import { setTimeout as sleep } from 'node:timers/promises';
import { connectAsync } from 'mqtt';
import { activateMany, addProduct, signUp, type Activation } from '../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../rig/clients/api.ts';
import { sendWithoutDelay } from '../rig/clients/mqtt-client.ts';
import { ask, encodeRequest, loadHttp, openConnection } from './parts/http-load.ts';
import type { BenchResult } from './parts/results.ts';
import { BenchRig } from './parts/rig.ts';
import type { Benchmark, BenchOptions } from './parts/rounds.ts';
import { percentile } from './parts/statistics.ts';

const deviceCount = 1_000;
const quickDevices = 20;
const everyMs = 40;
const lostAfterMs = 5_000;
/** Schedules are made at so many connections, and due when all are made. */
const connections = 8;
const restMs = 2_000;
const positions = ['up', 'down'] as const;

export const schedules: Benchmark = { name: 'B8', variants: [], measure };

async function measure({ rounds, isQuick, say, keep }: BenchOptions): Promise<BenchResult> {
  const rig = await keep(BenchRig.start({ deviceCount: 1 }));
  await rig.startBridge();
  const { worker } = rig;
  const fleetOwner = await signUp((credentials) => connectApi(worker.url, credentials));
  const serials = Array.from({ length: isQuick ? quickDevices : deviceCount }, (_, index) => `FLEET-${index}`);
  const fleet = await activateMany(fleetOwner.api, await addProduct(fleetOwner), serials);
  const heard = await connectAll(rig, [...rig.devices, ...fleet], keep);
  const recurring = { at: '00:00', zone: 'UTC', enabled: false, command: { action: 'trigger' } };
  const { schedules: routes } = fleetOwner.api.devices[':deviceId'];
  const { jitterSeconds } = await dataOf(
    routes.$post({ param: { deviceId: fleet[0]?.deviceId ?? '' }, json: recurring }),
  );
  const lasts = jitterSeconds * 1000 + restMs;
  const command = await openCommands(rig);
  const times: Record<'quiet' | 'schedules', number[]> = { quiet: [], schedules: [] };
  const failures: string[] = [];

  /** Commands at a steady pace, the 95th percentile of their times. */
  const measureCommands = async (): Promise<number> => {
    const untilMs = performance.now() + lasts;
    const timesMs: number[] = [];
    while (performance.now() < untilMs) {
      const nextAtMs = performance.now() + everyMs;
      const ms = await command();
      if (ms === null) failures.push('a report did not arrive');
      else timesMs.push(ms);
      await sleep(Math.max(0, nextAtMs - performance.now()));
    }
    return percentile(timesMs, 95);
  };
  for (let round = isQuick ? 0 : -1; round < rounds; round += 1) {
    const quietMs = await measureCommands();
    // Time enough to make them all.
    const dueAtMs = Date.now() + fleet.length * 20 + 5_000;
    const body = {
      at: new Date(dueAtMs).toISOString(),
      jitterSeconds,
      command: { action: 'toggle', position: positions[Math.abs(round) % 2] },
    };
    const requests = fleet.map(({ deviceId }) => ({
      ...{ path: `/api/v1/devices/${deviceId}/schedules`, token: fleetOwner.token, expected: 'scheduleId' },
      body,
    }));
    const { problems } = await loadHttp(worker.port, connections, requests, requests.length);
    failures.push(...problems);
    if (Date.now() > dueAtMs - restMs / 2) throw new Error('the schedules were made too slowly');
    heard.clear();
    await sleep(dueAtMs - Date.now());
    const busyMs = await measureCommands();
    await sleep(restMs);
    const pressed = fleet.map(({ topics }) => heard.get(topics.propertySet) ?? 0);
    const [missed, doubled] = [pressed.filter((count) => count === 0), pressed.filter((count) => count > 1)];
    if (missed.length + doubled.length > 0)
      failures.push(`${missed.length} did not press, ${doubled.length} more than once`);
    say(`B8, round ${round + 1}: p95 ${quietMs.toFixed(1)} ms, with schedules ${busyMs.toFixed(1)} ms`);
    if (round < 0) continue;
    times.quiet.push(quietMs);
    times.schedules.push(busyMs);
  }
  const added = times.schedules.map((ms, round) => ms - (times.quiet[round] ?? 0));
  return {
    title: 'commands of another user while many schedules are due',
    settings: [
      `${fleet.length} one-shots due at the same time, ${jitterSeconds} s of jitter as recurring ones have by default; each device reports`,
      `a command every ${everyMs} ms of another user until its report is on the relay, for ${lasts / 1000} s just before and from the due time on`,
    ],
    measures: [
      { name: 'p95, added', unit: 'ms', perRound: added, target: { atMost: 5 } },
      { name: '  quiet, p95', unit: 'ms', perRound: times.quiet },
      { name: '  with schedules, p95', unit: 'ms', perRound: times.schedules },
    ],
    failures,
  };
}

/** All devices over one connection: each reports what it was told. Counts commands by topic. */
async function connectAll(
  rig: BenchRig,
  devices: Activation[],
  keep: BenchOptions['keep'],
): Promise<Map<string, number>> {
  const heard = new Map<string, number>();
  const reportTopics = new Map(devices.map(({ topics }) => [topics.propertySet, topics.propertyPost]));
  const client = await connectAsync(rig.broker.url, { protocolVersion: 4, reconnectPeriod: 0 });
  sendWithoutDelay(client);
  client.on('message', (topic, payload) => {
    heard.set(topic, (heard.get(topic) ?? 0) + 1);
    const { id, params } = JSON.parse(payload.toString()) as { id: string; params: { position: string } };
    const report = { method: 'thing.event.property.post', id, params: { position: params.position, wifi_rssi: -58 } };
    client.publish(reportTopics.get(topic) ?? '', JSON.stringify(report), { qos: 1 });
  });
  await client.subscribeAsync([...reportTopics.keys()], { qos: 1 });
  await keep({ stop: () => client.endAsync(true) });
  // Online from now on: one that comes back is sent again what waits for it.
  const payload = JSON.stringify({ method: 'thing.event.property.post', id: '0', params: { position: 'down' } });
  await Promise.all(devices.map(({ topics }) => client.publishAsync(topics.propertyPost, payload, { qos: 1 })));
  return heard;
}

/** A function that gives a command and resolves with the milliseconds until its report, or null. */
async function openCommands(rig: BenchRig): Promise<() => Promise<number | null>> {
  const [device] = rig.devices;
  if (device === undefined) throw new Error('no device');
  const { topics, deviceId } = device;
  let expected = { position: '', arrive: (_atMs: number): void => undefined };
  await rig.follow([topics.propertyPost], (text) => {
    const { payload } = JSON.parse(text) as { payload: { params: { position?: string } } };
    if (payload.params.position === expected.position) expected.arrive(performance.now());
  });
  let [sent, connection] = [0, await openConnection(rig.worker.port)];
  return async () => {
    const position = positions[(sent += 1) % positions.length] ?? 'up';
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<number>();
    expected = { position, arrive };
    const [path, token] = [`/api/v1/devices/${deviceId}/control`, rig.worker.owner.token];
    // workerd closes a connection that has rested.
    if (connection.destroyed) connection = await openConnection(rig.worker.port);
    const startedAtMs = performance.now();
    const answer = await ask(connection, encodeRequest({ path, token, body: { action: 'toggle', position } }));
    if (!answer.includes('command_sent')) throw new Error(`a command was refused: ${answer}`);
    const atMs = await Promise.race([arrived, sleep(lostAfterMs, null, { ref: false })]);
    return atMs === null ? null : atMs - startedAtMs;
  };
}
