// Two active bridges, each with its share of the products. One of them is killed under load, so that the other serves both
// shares; it comes back and is given one again.
import { setTimeout as sleep } from 'node:timers/promises';
import { activateMany, addProduct, type Activation } from '../rig/accounts.ts';
import { makeSpoolDir, type BridgeProcess } from '../rig/bridge-process.ts';
import { Mosquitto } from '../rig/mosquitto.ts';
import type { WorkerRig } from '../rig/worker-rig.ts';
import { FaultRig, startFaultWorker } from './fault-rig.ts';
import type { Random } from './random.ts';
import { find, type Finding, type Scenario } from './scenario.ts';

const perSecond = 300;
const shares = 2;
/** So many that each share has some, but for once in 2 000 runs. */
const products = 12;
const devicesPerProduct = 5;
const changedWithinMs = 40_000;

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
  for (let product = 0; product < products; product += 1) {
    const productKey = await addProduct(worker.owner);
    const serials = Array.from({ length: devicesPerProduct }, (_, index) => `SHARE-${index}`);
    devices.push(...(await activateMany(worker.owner.api, productKey, serials)));
  }
  await bridge.kill('SIGTERM');
  return devices;
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
