// `npm run test:reconnect`: a fleet loses all of its connections at once, half of it at the broker, half at the edge, and comes
// back as fast as it can. Shows how many presence writes D1 takes each second, and how long another user's logins and
// activations take meanwhile. Ends with 1 where the writes exceed their limit or the user is refused.
import { setTimeout as sleep } from 'node:timers/promises';
import mqtt, { type MqttClient } from 'mqtt';
import { percentile } from '../../../bench/parts/statistics.ts';
import {
  activate,
  activateMany,
  addProduct,
  signUp,
  type Activation,
  type Session,
} from '../../../rig/clients/accounts.ts';
import { connectApi } from '../../../rig/clients/api.ts';
import { eventually } from '../../../rig/changes.ts';
import { readCommandLine } from '../../../rig/command-line.ts';
import { meteredFront, readMeter } from '../../../rig/worker/meter.ts';
import { WholeService } from '../../../rig/services/whole-service.ts';
import { addressOf, nameOfError, send } from '../rig/traffic.ts';

const usage = `Usage: npm run test:reconnect -- [options]

  --devices N     how many (2000); a local workerd holds some 4000 objects
  --per-second N  presence writes of all devices a second (50, a tenth of the default, because so many devices fit here)
  --seconds N     how long the bystander is timed before (20)`;

/** As the writer has it: a batch may begin at the end of one second and another at the begin of the next. */
const maxBatch = 50;
const lookEveryMs = 250;
const connectedAtOnce = 50;
const patienceMs = 15 * 60_000;
const pauseMs = 100;
/** The pace of passwords: twenty a minute. */
const loginEveryMs = 3_500;
const home = '203.0.113.5';

const options = { devices: { type: 'string' }, 'per-second': { type: 'string' }, seconds: { type: 'string' } } as const;
const { deviceCount, perSecond, quietSeconds } = readCommandLine(
  { name: 'npm run test:reconnect', usage, options },
  ({ values }) => {
    const whole = (name: keyof typeof options, fallback: number): number => {
      const value = Number(values[name] ?? fallback);
      if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} takes a whole number from 1`);
      return value;
    };
    return {
      deviceCount: whole('devices', 2_000),
      perSecond: whole('per-second', 50),
      quietSeconds: whole('seconds', 20),
    };
  },
);

type Times = { login: number[]; activation: number[]; failures: string[] };

const service = await WholeService.start({ SCHEDULE_SECONDS: '86400' }, {}, { frontModule: meteredFront });
const { rig } = service;
const clients: MqttClient[] = [];
/** That were accepted, of all devices together. */
let connections = 0;
let failures: string[] = [];
try {
  failures = await run();
} finally {
  for (const client of clients) client.end(true);
  await service.stop();
}
for (const failure of failures) console.log(`DID NOT HOLD: ${failure}`);
process.exit(failures.length === 0 ? 0 : 1);

async function run(): Promise<string[]> {
  const bystander = await signUp((credentials) => connectApi(rig.url, credentials));
  const productKey = await addProduct(bystander);
  await activate(bystander.api, productKey, 'BYSTANDER');
  say(`activating ${deviceCount} devices`);
  const serials = Array.from({ length: deviceCount }, (_, index) => `FLEET-${index}`);
  const devices = await activateMany(rig.owner.api, rig.productKey, serials);

  say('connecting them');
  // Until here limits were relaxed.
  rig.setVars({ RATE_LIMITS: 'production', LIMITS: `projectionsPerSecond=${perSecond}` });
  await rig.restartWorker('leave');
  await rig.untilHealthy();
  for (let at = 0; at < devices.length; at += connectedAtOnce) {
    for (const [index, device] of devices.slice(at, at + connectedAtOnce).entries()) startDevice(device, at + index);
    await eventually('the devices are connected', () => Promise.resolve(areConnected()), patienceMs);
  }
  await untilListed(devices.length);

  say('all are in the list as online');
  const quietUntil = performance.now() + quietSeconds * 1000;
  const before = await live(bystander, productKey, () => performance.now() > quietUntil);
  say('all connections are cut');
  const counted: { atMs: number; projections: number }[] = [];
  let isOver = false;
  const counting = countUntil(counted, () => isOver);
  const startedAtMs = performance.now();
  for (const client of clients) client.stream.destroy();
  const back = (async () => {
    const areBack = (): boolean => connections >= 2 * devices.length && areConnected();
    await eventually('the devices are back', () => Promise.resolve(areBack()), patienceMs);
    const backAfterMs = performance.now() - startedAtMs;
    await untilListed(devices.length, counted);
    isOver = true;
    return backAfterMs;
  })();
  const meanwhile = await live(bystander, productKey, () => isOver);
  const backAfterMs = await back;
  await counting;

  const most = mostASecond(counted);
  const total = (counted.at(-1)?.projections ?? 0) - (counted[0]?.projections ?? 0);
  const seconds = (performance.now() - startedAtMs) / 1000;
  console.log(
    `${devices.length} devices were connected again after ${(backAfterMs / 1000).toFixed(1)} s, half of them at the edge`,
  );
  console.log(
    `${total} presence writes in ${seconds.toFixed(1)} s, ${most} in the worst second; the limit is ${perSecond}`,
  );
  show('login', before.login, meanwhile.login);
  show('activation', before.activation, meanwhile.activation);
  return [
    ...(most > perSecond + maxBatch ? [`${most} presence writes in a second`] : []),
    ...[...before.failures, ...meanwhile.failures].slice(0, 5),
  ];
}

function say(text: string): void {
  console.log(`${new Date().toISOString().slice(11, 19)} ${text}`);
}

function startDevice({ mqtt: login, topics, deviceId }: Activation, number: number): void {
  const { username, password, clientId } = login;
  const session = {
    username,
    password,
    clientId,
    keepalive: 300,
    reconnectPeriod: 500,
    connectTimeout: 60_000,
    reconnectOnConnackError: true,
  };
  const edgeUrl = `${rig.url.replace(/^http/, 'ws')}/mqtt/${deviceId}`;
  const client =
    number % 2 === 0
      ? mqtt.connect(rig.mqttUrl, session)
      : mqtt.connect(edgeUrl, { ...session, wsOptions: { headers: { 'CF-Connecting-IP': addressOf(number) } } });
  client.on('error', () => undefined);
  client.on('connect', () => {
    connections += 1;
    client.publish(topics.status, JSON.stringify({ status: 'online' }), { qos: 1 });
  });
  clients.push(client);
}

function areConnected(): boolean {
  return clients.every(({ connected }) => connected);
}

/** What the list of the fleet's owner counts; with `counted`, once the writes rest as well. */
async function untilListed(count: number, counted: { projections: number }[] = []): Promise<void> {
  let total = 0;
  await eventually(
    () => `${count} online in the list; there are ${total}`,
    async () => {
      await sleep(2_000);
      const { text } = await send(`${rig.url}/api/v1/devices?status=online&size=1`, {
        headers: { Authorization: `Bearer ${rig.owner.token}` },
        address: '203.0.113.6',
      });
      total = (JSON.parse(text) as { data: { total: number } | null }).data?.total ?? 0;
      const [last, earlier] = [counted.at(-1)?.projections, counted.at(-20)?.projections];
      return total === count && last === earlier;
    },
    patienceMs,
  );
}

async function countUntil(counted: { atMs: number; projections: number }[], isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    // A look that fails is left out: the next one has the sum.
    const counts = await readMeter(rig.url).catch(() => undefined);
    if (counts !== undefined) counted.push({ atMs: performance.now(), projections: counts['D1 projections'] ?? 0 });
    await sleep(lookEveryMs);
  }
}

/** By looks that are at least a second apart: what came between two of them, for each second between them. */
function mostASecond(counted: readonly { atMs: number; projections: number }[]): number {
  let most = 0;
  let from = 0;
  for (const [to, { atMs, projections }] of counted.entries()) {
    while (atMs - (counted[from + 1]?.atMs ?? atMs) >= 1_000 && from + 1 < to) from += 1;
    const first = counted[from]!;
    if (atMs - first.atMs >= 1_000)
      most = Math.max(most, ((projections - first.projections) * 1000) / (atMs - first.atMs));
  }
  return Math.round(most);
}

async function live({ email, password }: Session, productKey: string, isOver: () => boolean): Promise<Times> {
  const times: Times = { login: [], activation: [], failures: [] };
  const time = async (kind: 'login' | 'activation', path: string, body: object): Promise<void> => {
    const startedAtMs = performance.now();
    try {
      const { status, text } = await send(`${rig.url}/api/v1${path}`, {
        method: 'POST',
        body: JSON.stringify(body),
        address: home,
      });
      if (status !== 200) times.failures.push(`${kind}: ${status} ${text.slice(0, 120)}`);
    } catch (error) {
      times.failures.push(`${kind}: ${nameOfError(error)}`);
    }
    times[kind].push(performance.now() - startedAtMs);
  };
  let nextLoginMs = performance.now();
  while (!isOver()) {
    if (performance.now() >= nextLoginMs) {
      nextLoginMs = performance.now() + loginEveryMs;
      await time('login', '/users/login', { email, password });
    }
    await time('activation', '/devices/activate', { productKey, deviceSN: 'BYSTANDER' });
    await sleep(pauseMs);
  }
  return times;
}

function show(kind: string, before: readonly number[], meanwhile: readonly number[]): void {
  const of = (times: readonly number[]): string =>
    `p50 ${percentile(times, 50).toFixed(0)}, p95 ${percentile(times, 95).toFixed(0)} ms (${times.length})`;
  console.log(`bystander's ${kind}: before ${of(before)}; meanwhile ${of(meanwhile)}`);
}
