// B6: what a device costs in a month at one report a minute, its usage and history, a home that is quiet, an update of its firmware, and a million webhook events, at list prices. The platform's charges are counted in this
// very run. The built Worker has a counter in front of it, and a clock that is moved on minute by minute.
import type { MqttClient } from 'mqtt';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../rig/changes.ts';
import type { Activation } from '../rig/clients/accounts.ts';
import { dataOf } from '../rig/clients/api.ts';
import { makeHomeKey } from '../rig/clients/home-client.ts';
import { WebhookReceiver } from '../rig/services/webhook-receiver.ts';
import {
  advanceClock,
  meteredFront,
  readMeter,
  reportConnected,
  resetMeter,
  type Counts,
} from '../rig/worker/meter.ts';
import { WorkerRig, workerVars } from '../rig/worker/worker-rig.ts';
import { readCpuMicroseconds } from './parts/cpu-time.ts';
import { connectFramed } from './parts/framed-client.ts';
import { messagesARequest, objectGigabytes, prices, pricesReadOn, priceSources } from './parts/prices.ts';
import type { BenchResult } from './parts/results.ts';
import type { Benchmark, BenchOptions } from './parts/rounds.ts';
import { prepareUpdates, updateWays } from './parts/updates.ts';

type Profile = { name: string; isDirect: boolean; reportsConnections: boolean; atMost: number };
/** One report of each device. */
type SendReports = (minute: number) => Promise<unknown>;

const minuteMs = 60_000;
const settleMs = 30;
const reportsAMonth = 30 * 24 * 60;
const deviceCount = 20;
/** Reports that come in one batch of the bridge. */
const batchSize = 10;
const minutes = { full: 60, quick: 5 };

const profiles: Profile[] = [
  { name: 'direct', isDirect: true, reportsConnections: true, atMost: 0.014 },
  { name: 'broker with event hooks', isDirect: false, reportsConnections: true, atMost: 0.014 },
  { name: 'broker without event hooks', isDirect: false, reportsConnections: false, atMost: 0.05 },
];

const eventProfiles = [
  { name: 'webhook event', devices: deviceCount },
  { name: 'webhook event, one device', devices: 1 },
];
const eventAtMost = 3;
/** Of a receiver. The device's object and the endpoint's object wait for it. */
const receiverMs = 100;

const homeProfile = { name: 'quiet home', atMost: 0.02 };

/** What usage and history cost more: days end, and one property has a history. */
const usageProfile = { name: 'usage and history', atMost: 0.004 };
/** Reports come as seldom as a bucket has one. What is written for it, others more often do not add to. */
const quarters = { full: 4 * 24 * 4, quick: 4 * 24 };

/** Of an update of 1 MiB. */
const updateProfiles = [
  { way: 'http', name: updateWays.http, devices: { full: 20, quick: 5 }, atMost: 0.0005 },
  { way: 'mqtt', name: updateWays.mqtt, devices: { full: 5, quick: 1 }, atMost: 0.002 },
] as const;

const profileLists = [profiles, eventProfiles, [homeProfile, usageProfile], updateProfiles];
const variants = profileLists.flatMap((list) => list.map(({ name }) => name));
export const cost: Benchmark = { name: 'B6', variants, measure };

async function measure({ isQuick, variant, say, keep }: BenchOptions): Promise<BenchResult> {
  const minuteCount = isQuick ? minutes.quick : minutes.full;
  const result: BenchResult = {
    title: 'cost of a device in a month of 30 days at one report a minute, US dollars',
    settings: [
      `list prices of ${pricesReadOn}, without what a plan includes: ${priceSources.join(' ')}`,
      `metered: ${deviceCount} devices for ${minuteCount} minutes of a clock that is moved on; nobody follows them`,
      `through a broker the bridge brings batches of ${batchSize} reports`,
      'processor time of workerd as a whole is charged both as the Worker and as duration of objects of 128 MB: both are less',
      `a quiet home: one client that pings once a minute, and ${deviceCount} devices that say nothing; the connection lasts`,
      'usage and history: what devices cost more that report a position and a number each quarter of an hour, than with both as texts',
      'an update: 1 MiB on a direct connection, in 64 ranges over HTTP or 1 748 requests over MQTT, with its share of a campaign',
      `webhook events: what a change of position a minute costs more with a webhook, if its receiver answers in ${receiverMs} ms`,
      'not in it: storage, the broker, the bridge and what the machine of either costs',
    ],
    measures: [],
    failures: [],
  };
  for (const { name, isDirect, reportsConnections, atMost } of profiles) {
    if (variant !== null && name !== variant) continue;
    // The scheduled job, which a deployment has once, would be counted for twenty devices.
    const vars = {
      BROKER_REPORTS_CONNECTIONS: String(reportsConnections),
      SCHEDULE_SECONDS: '86400',
      LOG_INFO_SHARE: '0.1',
    };
    const rig = await keep(WorkerRig.start({ frontModule: meteredFront, vars }));
    const devices = await rig.activateMany(deviceCount);
    const send = isDirect ? await connectDirectly(rig, devices, keep) : sendInBatches(rig, devices);
    if (!isDirect && reportsConnections) for (const device of devices) await reportConnected(rig.url, device);
    const { used, taken } = await meter(rig, send, minuteCount);
    const expected = (minuteCount * deviceCount) / (isDirect ? 1 : batchSize);
    const took = taken[isDirect ? 'DeviceSession.webSocketMessage' : 'requests'] ?? 0;
    if (took < expected) result.failures.push(`${name}: only ${took} of ${expected} were taken`);
    const parts = costOf(used);
    const total = Object.values(parts).reduce((sum, part) => sum + part, 0);
    say(`B6 ${name}: ${total.toFixed(4)} USD a month`);
    result.measures.push(
      { name, unit: 'USD/month', perRound: [total], target: { atMost } },
      ...Object.entries(parts).map(([part, value]) => ({ name: `  ${part}`, unit: 'USD/month', perRound: [value] })),
      ...Object.entries(used).map(([what, count]) => ({ name: `  ${what}`, unit: 'a report', perRound: [count] })),
    );
  }
  if (variant === null || variant === homeProfile.name) {
    const parts = await measureHome(minuteCount, keep);
    const total = Object.values(parts).reduce((sum, part) => sum + part, 0);
    say(`B6 ${homeProfile.name}: ${total.toFixed(4)} USD a month`);
    const { name, atMost } = homeProfile;
    result.measures.push(
      { name, unit: 'USD/month', perRound: [total], target: { atMost } },
      ...Object.entries(parts).map(([part, value]) => ({ name: `  ${part}`, unit: 'USD/month', perRound: [value] })),
    );
  }
  if (variant === null || variant === usageProfile.name) {
    const parts = await measureUsage(quarters[isQuick ? 'quick' : 'full'], keep);
    const total = Object.values(parts).reduce((sum, part) => sum + part, 0);
    say(`B6 ${usageProfile.name}: ${total.toFixed(4)} USD a month more`);
    const { name, atMost } = usageProfile;
    result.measures.push(
      { name, unit: 'USD/month', perRound: [total], target: { atMost } },
      ...Object.entries(parts).map(([part, value]) => ({ name: `  ${part}`, unit: 'USD/month', perRound: [value] })),
    );
  }
  for (const { name, way, devices, atMost } of updateProfiles) {
    if (variant !== null && name !== variant) continue;
    const { parts, used } = await measureUpdate(devices[isQuick ? 'quick' : 'full'], way, keep);
    const total = Object.values(parts).reduce((sum, part) => sum + part, 0);
    say(`B6 ${name}: ${total.toFixed(6)} USD a device`);
    result.measures.push(
      { name, unit: 'USD', perRound: [total], target: { atMost } },
      { name: '  of 10 000 devices', unit: 'USD', perRound: [total * 10_000] },
      ...Object.entries(parts).map(([part, value]) => ({ name: `  ${part}`, unit: 'USD', perRound: [value] })),
      ...Object.entries(used).map(([what, count]) => ({ name: `  ${what}`, unit: 'a device', perRound: [count] })),
    );
  }
  for (const { name, devices } of eventProfiles) {
    if (variant !== null && name !== variant) continue;
    const parts = await measureEvents(devices, minuteCount, keep);
    const total = Object.values(parts).reduce((sum, part) => sum + part, 0);
    say(`B6 ${name}: ${total.toFixed(2)} USD a million`);
    const unit = 'USD/million';
    result.measures.push(
      { name, unit, perRound: [total], target: { atMost: eventAtMost } },
      ...Object.entries(parts).map(([part, value]) => ({ name: `  ${part}`, unit, perRound: [value] })),
    );
  }
  return result;
}

/** The difference that a webhook makes. Processor time is not in it: it is the noise of two runs. */
async function measureEvents(count: number, minuteCount: number, keep: BenchOptions['keep']) {
  const vars = {
    BROKER_REPORTS_CONNECTIONS: 'true',
    SCHEDULE_SECONDS: '86400',
    LIMITS: `${workerVars.LIMITS},webhookDeliveriesPerSecond=10000`,
  };
  const rig = await keep(WorkerRig.start({ frontModule: meteredFront, vars }));
  const receiver = await keep(WebhookReceiver.start());
  const devices = await rig.activateMany(count);
  for (const device of devices) await reportConnected(rig.url, device);
  let hasWebhook = false;
  let moves = 0;
  const move: SendReports = async (minute) => {
    const expected = receiver.received.length + (hasWebhook ? count : 0);
    moves += 1;
    const payload = payloadOf(minute, moves % 2 === 0 ? 'up' : 'down');
    await rig.sendBatch(devices.map(({ topics }) => ({ topic: topics.propertyPost, payload })));
    await eventually('all events', () => receiver.received.length >= expected);
    // The cursor is saved when the answer has come.
    await sleep(settleMs);
  };
  const without = (await meter(rig, move, minuteCount)).taken;
  const url = `${receiver.url}/hook`;
  await dataOf(rig.owner.api.webhooks.$post({ json: { url, types: ['device.reported'] } }));
  hasWebhook = true;
  const taken = (await meter(rig, move, minuteCount)).taken;
  const million = 1_000_000 / (count * minuteCount);
  const of = (name: string) => ((taken[name] ?? 0) - (without[name] ?? 0)) * million;
  return {
    'object requests, cost': (of('object calls') + of('object alarms')) * prices.objectRequest,
    'duration of two objects': 2 * receiverMs * 1_000 * objectGigabytes * prices.objectGigabyteSecond,
    'object rows': of('object rows read') * prices.objectRowRead + of('object rows written') * prices.objectRowWritten,
    'D1 rows': of('D1 rows read') * prices.databaseRowRead + of('D1 rows written') * prices.databaseRowWritten,
  };
}

/** The difference between two fleets that report alike; of one nothing is known and nothing a number. Without processor time. */
async function measureUsage(count: number, keep: BenchOptions['keep']) {
  const vars = { BROKER_REPORTS_CONNECTIONS: 'true', SCHEDULE_SECONDS: '86400', LOG_INFO_SHARE: '0.1' };
  const run = async (params: object) => {
    const rig = await keep(WorkerRig.start({ frontModule: meteredFront, vars }));
    const devices = await rig.activateMany(deviceCount);
    for (const device of devices) await reportConnected(rig.url, device);
    const payload = JSON.stringify({ method: 'thing.event.property.post', id: '1', params });
    const step = async () => {
      await rig.sendBatch(devices.map(({ topics }) => ({ topic: topics.propertyPost, payload })));
      await advanceClock(rig.url, 15 * minuteMs);
    };
    for (let quarter = 0; quarter < 4; quarter += 1) await step();
    await resetMeter(rig.url);
    for (let quarter = 0; quarter < count; quarter += 1) await step();
    return readMeter(rig.url);
  };
  const taken = await run({ position: 'up', power: 5 });
  const without = await run({ posture: 'up', power: '5' });
  const month = (30 * 24 * 4) / (deviceCount * count);
  const of = (name: string) => ((taken[name] ?? 0) - (without[name] ?? 0)) * month;
  return {
    'object requests, cost': (of('object calls') + of('object alarms')) * prices.objectRequest,
    'object rows': of('object rows read') * prices.objectRowRead + of('object rows written') * prices.objectRowWritten,
    'D1 rows': of('D1 rows read') * prices.databaseRowRead + of('D1 rows written') * prices.databaseRowWritten,
  };
}

/** With its share of the campaign. Devices are connected to the Worker itself. */
async function measureUpdate(count: number, way: keyof typeof updateWays, keep: BenchOptions['keep']) {
  const limits = `${workerVars.LIMITS},directPacketsPerSecond=1000000`;
  const vars = { BROKER: 'none', SCHEDULE_SECONDS: '86400', LOG_INFO_SHARE: '0.1', LIMITS: limits };
  const rig = await keep(WorkerRig.start({ frontModule: meteredFront, vars }));
  const update = await prepareUpdates(rig, await rig.activateMany(count), way);
  await sleep(settleMs * 100);
  await resetMeter(rig.url);
  const cpuBefore = readCpuMicroseconds(rig.pid);
  await update();
  const taken = await readMeter(rig.url);
  const used = perReport(taken, count, (readCpuMicroseconds(rig.pid) - cpuBefore) / count);
  const reads = (taken['R2 reads'] ?? 0) / count;
  return { used: { ...used, 'R2 reads': reads }, parts: { ...costOf(used, 1), R2: reads * prices.bucketRead } };
}

/** Its pings, and the look at its key and its registration every five minutes. */
async function measureHome(minuteCount: number, keep: BenchOptions['keep']) {
  const vars = { BROKER: 'none', SCHEDULE_SECONDS: '86400', LOG_INFO_SHARE: '0.1' };
  const rig = await keep(WorkerRig.start({ frontModule: meteredFront, vars }));
  await rig.activateMany(deviceCount);
  const { keyId: username, apiKey: password } = await makeHomeKey(rig.owner.api);
  const login = { clientId: 'home', username, password, keepalive: 0, reconnectPeriod: 0 };
  const client = await connectFramed(`${rig.url.replace(/^http/, 'ws')}/mqtt/home`, login);
  await keep({ stop: () => client.endAsync(true) });
  await client.subscribeAsync(['homeassistant/#', 'latchwork/#']);
  await sleep(settleMs * 100);
  const ping: SendReports = async () => {
    const answered = new Promise((resolve) => client.once('packetreceive', resolve));
    client.sendPing();
    await answered;
    // What a home writes, it writes a moment later.
    await sleep(1_000);
  };
  const { used } = await meter(rig, ping, minuteCount, 1);
  return costOf(used);
}

/** What a report uses, and what the meter counted in all. */
async function meter(rig: WorkerRig, send: SendReports, minuteCount: number, aMinute = deviceCount) {
  const run = async (from: number, to: number): Promise<void> => {
    for (let minute = from; minute < to; minute += 1) {
      await send(minute);
      await advanceClock(rig.url, minuteMs);
    }
  };
  // What happens once, when a device comes, is not of a month.
  await run(-3, 0);
  await resetMeter(rig.url);
  const cpuBefore = readCpuMicroseconds(rig.pid);
  await run(0, minuteCount);
  const reports = minuteCount * aMinute;
  const cpuMicroseconds = (readCpuMicroseconds(rig.pid) - cpuBefore) / reports;
  const taken = await readMeter(rig.url);
  return { used: perReport(taken, reports, cpuMicroseconds), taken };
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

function costOf(used: Record<string, number>, times = reportsAMonth): Record<string, number> {
  const count = (name: string): number => (used[name] ?? 0) * times;
  return {
    requests: count('Worker requests') * prices.workerRequest + count('processor time, ms') * prices.workerCpuMs,
    'object requests, cost': count('object requests') * prices.objectRequest,
    duration: (count('object duration, ms') / 1000) * objectGigabytes * prices.objectGigabyteSecond,
    'object rows':
      count('object rows read') * prices.objectRowRead + count('object rows written') * prices.objectRowWritten,
    'D1 rows': count('D1 rows read') * prices.databaseRowRead + count('D1 rows written') * prices.databaseRowWritten,
  };
}

function payloadOf(minute: number, position = 'up'): string {
  const params = { position, wifi_rssi: -55 - (Math.abs(minute) % 8) };
  return JSON.stringify({ method: 'thing.event.property.post', id: String(minute), params });
}

function sendInBatches(rig: WorkerRig, devices: Activation[]): SendReports {
  return async (minute) => {
    for (let at = 0; at < devices.length; at += batchSize) {
      const some = devices.slice(at, at + batchSize);
      await rig.sendBatch(some.map(({ topics }) => ({ topic: topics.propertyPost, payload: payloadOf(minute) })));
    }
  };
}

/** Each device has a socket of its own. */
async function connectDirectly(
  rig: WorkerRig,
  devices: Activation[],
  keep: BenchOptions['keep'],
): Promise<SendReports> {
  const opening = devices.map(({ deviceId, mqtt: { clientId, username, password } }) => {
    const login = { clientId, username, password, protocolVersion: 4 as const, keepalive: 0, reconnectPeriod: 0 };
    return connectFramed(`${rig.url.replace(/^http/, 'ws')}/mqtt/${deviceId}`, login);
  });
  const clients = await Promise.all(opening);
  await keep({ stop: () => Promise.all(clients.map((client) => client.endAsync(true))) });
  return (minute) => {
    const publish = (client: MqttClient, index: number) =>
      client.publishAsync(devices[index]?.topics.propertyPost ?? '', payloadOf(minute), { qos: 1 });
    return Promise.all(clients.map(publish));
  };
}
