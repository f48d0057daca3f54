// Two active bridges, each with its share of the products. One of them is killed under load, so that the other serves both
// shares; it comes back and is given one again.
import { setTimeout as sleep } from 'node:timers/promises';
import { activateMany, addProduct, type Activation } from '../../../rig/clients/accounts.ts';
import { makeSpoolDir, type BridgeProcess } from '../../../rig/services/bridge-process.ts';
import { eventually } from '../../../rig/changes.ts';
import { Mosquitto } from '../../../rig/brokers/mosquitto.ts';
import type { WorkerRig } from '../../../rig/worker/worker-rig.ts';
import { untilSpoolEmpty } from '../rig/bridge-metrics.ts';
import { FaultRig, startFaultWorker } from '../rig/fault-rig.ts';
import { PositionCounter } from '../rig/position-counter.ts';
import type { Random } from '../rig/random.ts';
import { find, type Finding, type Scenario } from '../rig/scenario.ts';

const perSecond = 300;
const shares = 2;
/** So many that each share has some, but for once in 2 000 runs. */
const products = 12;
const devicesPerProduct = 5;
const changedWithinMs = 40_000;
const quietMs = 3_000;

export const activeBridges: Scenario = {
  name: 'active-bridges',
  title: 'two active bridges share the products: one is killed and comes back; then both leave and come in order',
  run: async ({ random, count, isShort, say }) => {
    const worker = await startFaultWorker({ BRIDGE_SHARES: String(shares) });
    try {
      const kills = count(10, 1);
      const killed = await run(worker, 'SIGKILL', kills, random, say);
      return isShort ? [killed] : [killed, await run(worker, 'SIGTERM', count(10, 1), random, say)];
    } finally {
      await worker.stop();
    }
  },
};

export const changedShares: Scenario = {
  name: 'changed-shares',
  title: 'the number of shares is changed under load by a new deployment, and back',
  run: async ({ isShort, say }) => {
    const worker = await startFaultWorker();
    try {
      return [await changeUnderLoad(worker, isShort ? [2] : [2, 3, 2, 1], isShort ? [40, 300] : [100, 120], say)];
    } finally {
      await worker.stop();
    }
  },
};

async function changeUnderLoad(
  worker: WorkerRig,
  numbers: number[],
  [perDevice, eachSecond]: [number, number],
  say: (line: string) => void,
): Promise<Finding> {
  const devices: Activation[] = [];
  for (let product = 0; product < products; product += 1) devices.push(...(await makeDevicesOfProduct(worker)));
  const rig = await FaultRig.openAt(worker, devices, await Mosquitto.start());
  try {
    const spools = [await rig.makeSpool(), await rig.makeSpool()];
    const bridges = spools.map((spool, index) =>
      rig.startBridge({ spool, environment: { BRIDGE_ID: `bridge-${index + 1}` } }),
    );
    await untilServedBy(bridges, 1);
    // Few enough of each device for each changing message to keep a property of its own, and its changes of position.
    const counter = new PositionCounter();
    const loading = { isUnderWay: true };
    const load = rig.load(devices.length * perDevice, eachSecond, () => [rig.maker.make({ moves: true })]);
    void load.then(() => (loading.isUnderWay = false));
    let slowestMs = 0;
    let inTime = 0;
    for (const number of numbers) {
      await sleep(1000);
      const startedAtMs = performance.now();
      worker.setVars({ BRIDGE_SHARES: String(number) });
      await worker.restartWorker('leave');
      await untilServedBy(bridges, number);
      slowestMs = Math.max(slowestMs, performance.now() - startedAtMs);
      if (loading.isUnderWay) inTime += 1;
      say(`${number} shares`);
    }
    await load;
    await rig.publisher.drained(changedWithinMs);
    for (const { healthPort } of spools) await untilSpoolEmpty(healthPort);
    // What the relay missed while the Worker restarted shows in the states, once nothing comes any more.
    while (rig.history.missing.length > 0 && rig.history.msSinceEffect < quietMs) await sleep(100);
    await rig.maker.compareState(worker);
    const outcome = await rig.finish();
    let [made, recorded] = [0, 0];
    for (const { deviceId } of devices) {
      made += rig.maker.countChanging(deviceId);
      recorded += await counter.count(worker, deviceId);
    }
    const facts = [
      `${recorded} changes of position for ${made} messages`,
      `slowest: ${(slowestMs / 1000).toFixed(1)} s`,
      `${inTime} of ${numbers.length} changes under load`,
    ];
    // Fewer changes than messages: one has overtaken another, so that the position stayed. None is lost where its property shows.
    const judged = { ...outcome, doubled: Math.max(outcome.doubled, recorded - made) };
    // Relay sockets end with the Worker, and with it which messages that change nothing were pushed.
    const finding = find(`shares: 1, ${numbers.join(', ')}`, judged, facts, {
      isOrderKept: false,
      isRelayKept: false,
      isMemoryKept: false,
    });
    if (outcome.stale > 0) finding.failures.push(`${outcome.stale} properties that do not show the last message`);
    return finding;
  } finally {
    await rig.close();
  }
}

/** Each share is served by one of them. */
async function untilServedBy(bridges: BridgeProcess[], number: number): Promise<void> {
  const read = () =>
    bridges.flatMap((bridge) => {
      const state = bridge.states.at(-1);
      if (!bridge.isBrokerConnected || state?.['link'] !== 'connected' || state['role'] !== 'active') return [];
      return number === 1 && state['shares'] === undefined ? [0] : ((state['shares'] as number[] | undefined) ?? []);
    });
  await eventually(
    () => `${number} shares are served; ${bridges.map(({ lastWords }) => lastWords).join(' ')}`,
    async () => Promise.resolve(read().sort().join() === Array.from({ length: number }, (_, share) => share).join()),
    changedWithinMs,
  );
}

async function run(
  worker: WorkerRig,
  signal: 'SIGKILL' | 'SIGTERM',
  times: number,
  random: Random,
  say: (line: string) => void,
): Promise<Finding> {
  const broker = await Mosquitto.start();
  const devices = await makeDevices(worker, broker);
  const rig = await FaultRig.openAt(worker, devices, broker);
  const spools = [await rig.makeSpool(), await rig.makeSpool()] as const;
  const start = (index: 0 | 1): BridgeProcess =>
    rig.startBridge({ spool: spools[index], environment: { BRIDGE_ID: `bridge-${index + 1}` } });
  try {
    const bridges = [start(0), start(1)] as [BridgeProcess, BridgeProcess];
    await Promise.all(bridges.map((bridge) => untilServing(bridge, 1)));
    const endLoad = rig.startLoad(perSecond);
    let slowestMs = 0;
    for (let done = 0; done < times; done += 1) {
      const [victim, other]: [0 | 1, 0 | 1] = done % 2 === 0 ? [0, 1] : [1, 0];
      await sleep(random.between(200, 1500));
      const startedAtMs = performance.now();
      await bridges[victim].kill(signal);
      await untilServing(bridges[other], shares);
      slowestMs = Math.max(slowestMs, performance.now() - startedAtMs);
      bridges[victim] = start(victim);
      await Promise.all(bridges.map((bridge) => untilServing(bridge, 1)));
      say(`${done + 1} times ${signal}`);
    }
    await endLoad();
    // What a killed bridge had acknowledged waits on its disk, while later messages go through the other.
    const isOrderKept = signal === 'SIGTERM';
    const facts = [`slowest: ${(slowestMs / 1000).toFixed(1)} s`];
    return find(`${times} times ${signal}`, await rig.finish(), facts, { isOrderKept });
  } finally {
    await rig.close();
  }
}

/** Of products of all shares. They activate only where a bridge is subscribed to their products. */
async function makeDevices(worker: WorkerRig, broker: Mosquitto): Promise<Activation[]> {
  const environment = { BRIDGE_ID: 'bridge-0' };
  const bridge = worker.startBridge({ mqttUrl: broker.url, spoolDir: makeSpoolDir(), environment });
  await untilServing(bridge, shares);
  const devices: Activation[] = [];
  for (let product = 0; product < products; product += 1) devices.push(...(await makeDevicesOfProduct(worker)));
  await bridge.kill('SIGTERM');
  return devices;
}

async function makeDevicesOfProduct(worker: WorkerRig): Promise<Activation[]> {
  const productKey = await addProduct(worker.owner);
  const serials = Array.from({ length: devicesPerProduct }, (_, index) => `SHARE-${index}`);
  return activateMany(worker.owner.api, productKey, serials);
}

async function untilServing(bridge: BridgeProcess, count: number): Promise<void> {
  await bridge.changes.until(
    () => `a bridge that serves ${count} shares; ${bridge.lastWords}`,
    () => {
      const active = bridge.states.at(-1)?.['shares'];
      return bridge.isBrokerConnected && Array.isArray(active) && active.length === count;
    },
    changedWithinMs,
  );
}
