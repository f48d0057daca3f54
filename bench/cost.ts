// B6: what a device costs in a month at one report a minute, at list prices. The platform's charges are counted in this
// very run. The built Worker has a counter in front of it, and a clock that is moved on minute by minute.
import type { MqttClient } from 'mqtt';
import type { Activation } from '../rig/clients/accounts.ts';
import { bridgeSecret } from '../rig/services/processes.ts';
import {
  advanceClock,
  meteredFront,
  readMeter,
  reportConnected,
  resetMeter,
  type Counts,
} from '../rig/worker/meter.ts';
import { WorkerRig } from '../rig/worker/worker-rig.ts';
import { readCpuMicroseconds } from './parts/cpu-time.ts';
import { connectFramed } from './parts/framed-client.ts';
import { messagesARequest, objectGigabytes, prices, pricesReadOn, priceSources } from './parts/prices.ts';
import type { BenchResult, Target } from './parts/results.ts';
import type { BenchOptions } from './parts/rounds.ts';

type Way = 'direct' | 'bridge';
type Profile = {
  name: string;
  way: Way;
  reportsConnections: boolean;
  /** Reports that come in one batch of the bridge. */
  batch: number;
  /** Every so many reports the position changes; 0: it never does. */
  movesEvery: number;
  target?: Target;
};

const minuteMs = 60_000;
const reportsAMonth = 30 * 24 * 60;
const deviceCount = 20;
const minutes = { full: 60, quick: 5 };

const profiles: Profile[] = [
  profile('direct', 'direct', true, 1, 0, 0.01),
  profile('broker with event hooks, batches of 10', 'bridge', true, 10, 0, 0.01),
  profile('broker with event hooks, a batch each', 'bridge', true, 1, 0),
  profile('broker without event hooks, batches of 10', 'bridge', false, 10, 0, 0.05),
  profile('direct, moving once an hour', 'direct', true, 1, 60),
  profile('direct, moving at every report', 'direct', true, 1, 1),
];

export const costVariants: readonly string[] = profiles.map(({ name }) => name);

/** One for what the broker tells, one for what it does not: `false`, `true`. */
export const costRigs = ['false', 'true'].map((reportsConnections) => ({
  frontModule: meteredFront,
  // The scheduled job, which a deployment has once, would be counted for twenty devices.
  vars: { BROKER_REPORTS_CONNECTIONS: reportsConnections, SCHEDULE_SECONDS: '86400', LOG_INFO_SHARE: '0.1' },
}));

export async function measureCost(
  [silent, reporting]: readonly WorkerRig[],
  options: BenchOptions,
): Promise<BenchResult> {
  const { isQuick, variant, say } = options;
  const result: BenchResult = {
    name: 'B6',
    title: 'cost of a device in a month of 30 days at one report a minute, US dollars',
    settings: [
      `list prices of ${pricesReadOn}, without what a plan includes: ${priceSources.join(' ')}`,
      `metered: ${deviceCount} devices for ${isQuick ? minutes.quick : minutes.full} minutes of a clock that is moved on; nobody follows them`,
      'processor time of workerd as a whole is charged both as the Worker and as duration of objects of 128 MB: both are less',
      'not in it: storage, the broker, the bridge and what the machine of either costs',
    ],
    measures: [],
    failures: [],
  };
  for (const profile of profiles) {
    if (variant !== null && profile.name !== variant) continue;
    const rig = profile.reportsConnections ? reporting : silent;
    if (rig === undefined) throw new Error('B6 needs two Workers');
    const counted = await meter(rig, profile, isQuick ? minutes.quick : minutes.full);
    const cost = costOf(counted);
    say(`B6 ${profile.name}: ${cost.total.toFixed(4)} USD a month`);
    result.failures.push(...counted.problems.map((problem) => `${profile.name}: ${problem}`));
    const judged = isQuick || profile.target === undefined ? {} : { target: profile.target };
    result.measures.push({ name: profile.name, unit: 'USD/month', perRound: [cost.total], ...judged });
    for (const [part, value] of Object.entries(cost.parts)) {
      result.measures.push({ name: `  ${part}`, unit: 'USD/month', perRound: [value] });
    }
    for (const [what, count] of Object.entries(counted.perReport)) {
      result.measures.push({ name: `  ${what}`, unit: 'a report', perRound: [count] });
    }
  }
  return result;
}

type Counted = { perReport: Record<string, number>; problems: string[] };

async function meter(rig: WorkerRig, profile: Profile, minuteCount: number): Promise<Counted> {
  const devices = await rig.activateMany(deviceCount);
  const sender =
    profile.way === 'direct' ? await DirectSender.connect(rig, devices) : new BatchSender(rig, devices, profile.batch);
  const problems: string[] = [];
  try {
    if (profile.way === 'bridge' && profile.reportsConnections)
      for (const device of devices) await reportConnected(rig.url, device);
    // What happens once, when a device comes: not of a month.
    for (let minute = 0; minute < 3; minute += 1) {
      await sender.send(() => payloadOf(0, minute));
      await advanceClock(rig.url, minuteMs);
    }
    await resetMeter(rig.url);
    const worker = [{ pid: rig.pid, isGroup: true }];
    const cpuBefore = readCpuMicroseconds(worker);
    const reports = minuteCount * deviceCount;
    for (let minute = 0; minute < minuteCount; minute += 1) {
      await sender.send((device) => payloadOf(positionOf(profile, minute, device), minute));
      await advanceClock(rig.url, minuteMs);
    }
    const cpuMicroseconds = (readCpuMicroseconds(worker) - cpuBefore) / reports;
    const counts = await readMeter(rig.url);
    const taken = profile.way === 'direct' ? counts['DeviceSession.webSocketMessage'] : counts['requests'];
    if ((taken ?? 0) < reports / (profile.way === 'direct' ? 1 : profile.batch))
      problems.push(`only ${taken ?? 0} were taken`);
    return { perReport: perReport(counts, reports, cpuMicroseconds), problems };
  } finally {
    await sender.stop();
  }
}

function perReport(counts: Counts, reports: number, cpuMicroseconds: number): Record<string, number> {
  const of = (...names: string[]): number => names.reduce((sum, name) => sum + (counts[name] ?? 0), 0) / reports;
  return {
    'Worker requests': of('requests'),
    'object requests': of('object calls', 'object alarms', 'object closes') + of('object messages') / messagesARequest,
    'object rows read': of('object rows read'),
    'object rows written': of('object rows written'),
    'D1 rows read': of('D1 rows read'),
    'D1 rows written': of('D1 rows written'),
    'processor time, ms': cpuMicroseconds / 1000,
    // The link waits for a bridge, which there is none of here.
    'object duration, ms': Math.max(of('object ms') - of('BrokerLink ms'), cpuMicroseconds / 1000),
  };
}

function costOf({ perReport: of }: Counted): { total: number; parts: Record<string, number> } {
  const count = (name: string): number => (of[name] ?? 0) * reportsAMonth;
  const parts = {
    requests: count('Worker requests') * prices.workerRequest + count('processor time, ms') * prices.workerCpuMs,
    'object requests, cost': count('object requests') * prices.objectRequest,
    duration: (count('object duration, ms') / 1000) * objectGigabytes * prices.objectGigabyteSecond,
    'object rows':
      count('object rows read') * prices.objectRowRead + count('object rows written') * prices.objectRowWritten,
    'D1 rows': count('D1 rows read') * prices.databaseRowRead + count('D1 rows written') * prices.databaseRowWritten,
  };
  return { total: Object.values(parts).reduce((sum, part) => sum + part, 0), parts };
}

const positions = ['up', 'middle', 'down'] as const;

function positionOf({ movesEvery }: Profile, minute: number, device: number): number {
  return movesEvery === 0 ? 0 : Math.floor((minute + device) / movesEvery);
}

function payloadOf(position: number, minute: number): string {
  const params = { position: positions[position % positions.length], wifi_rssi: -55 - (minute % 8) };
  return JSON.stringify({ method: 'thing.event.property.post', id: String(minute), params });
}

/** One report of each device, in the batches of a bridge. */
class BatchSender {
  readonly #rig: WorkerRig;
  readonly #devices: Activation[];
  readonly #batch: number;
  readonly #spoolId = crypto.randomUUID();
  #seq = 0;

  constructor(rig: WorkerRig, devices: Activation[], batch: number) {
    this.#rig = rig;
    this.#devices = devices;
    this.#batch = batch;
  }

  async send(payload: (device: number) => string): Promise<void> {
    for (let at = 0; at < this.#devices.length; at += this.#batch) {
      const some = this.#devices.slice(at, at + this.#batch);
      const nowMs = Date.now();
      const items = some.map((device, index) => ({
        seq: (this.#seq += 1),
        topic: device.topics.propertyPost,
        payload: payload(at + index),
        receivedAtMs: nowMs,
      }));
      const response = await fetch(`${this.#rig.url}/bridge/uplink`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${bridgeSecret}`, 'Content-Type': 'application/json' },
        body: JSON.stringify({ spoolId: this.#spoolId, sentAtMs: nowMs, items }),
      });
      const text = await response.text();
      if (text.includes('"rejected"') || text.includes('"retry"') || !response.ok) throw new Error(text.slice(0, 300));
    }
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }
}

/** Each device has a socket of its own. */
class DirectSender {
  readonly #devices: Activation[];
  readonly #clients: MqttClient[];

  private constructor(devices: Activation[], clients: MqttClient[]) {
    this.#devices = devices;
    this.#clients = clients;
  }

  static async connect(rig: WorkerRig, devices: Activation[]): Promise<DirectSender> {
    const clients = devices.map(({ deviceId, mqtt: { clientId, username, password } }) => {
      const login = { clientId, username, password, protocolVersion: 4 as const, keepalive: 0, reconnectPeriod: 0 };
      return connectFramed(`${rig.url.replace(/^http/, 'ws')}/mqtt/${deviceId}`, login);
    });
    return new DirectSender(devices, await Promise.all(clients));
  }

  async send(payload: (device: number) => string): Promise<void> {
    const sending = this.#clients.map((client, device) =>
      client.publishAsync(this.#devices[device]?.topics.propertyPost ?? '', payload(device), { qos: 1 }),
    );
    await Promise.all(sending);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.endAsync(true)));
  }
}

function profile(
  name: string,
  way: Way,
  reportsConnections: boolean,
  batch: number,
  movesEvery: number,
  atMost?: number,
): Profile {
  return { name, way, reportsConnections, batch, movesEvery, ...(atMost !== undefined && { target: { atMost } }) };
}
