// The bridge's disk fails: it is full, or what lies on it is torn or rotten where the bridge was writing last. A
// transaction that was destroyed after its acknowledgement is gone; it must cost nothing but itself.
import { existsSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BridgeProcess } from '../../../rig/services/processes.ts';
import { FaultRig } from '../rig/fault-rig.ts';
import { HttpGate } from '../rig/http-gate.ts';
import { find, type Context, type Finding, type Scenario } from '../rig/scenario.ts';

export const spoolFull: Scenario = {
  name: 'spool-full',
  title:
    'the Worker is away until the spool is full, the bridge is killed while it is, and the rest waits at the broker',
  run: async ({ worker, count }) => {
    await using gate = await HttpGate.start(worker.url);
    await using rig = await FaultRig.open(worker, 30);
    const options = {
      spool: await rig.makeSpool(),
      workerUrl: gate.url,
      environment: { SPOOL_MAX_BYTES: '262144' },
    };
    let bridge = rig.startBridge(options);
    await bridge.untilBrokerConnected();
    const rounds = count(5, 1);
    for (let round = 0; round < rounds; round += 1) {
      const linesBefore = bridge.lines.length;
      gate.setFaults({ refuse: () => 503 });
      await rig.load(1200, 1200, () => [rig.maker.make({ padBytes: 400 })]);
      await untilFull(bridge, linesBefore);
      await bridge.kill('SIGKILL');
      bridge = rig.startBridge(options);
      await untilFull(bridge, 0);
      gate.setFaults({});
      await rig.untilArrived();
    }
    return [find(`full ${rounds} times, 256 KiB`, await rig.finish(), [])];
  },
};

/** A bridge that lives on has logged the round before, too. */
async function untilFull(bridge: BridgeProcess, linesBefore: number): Promise<void> {
  const full = 'the spool is full: messages wait unacknowledged at the broker';
  const isFull = () => bridge.lines.slice(linesBefore).some(({ message }) => message === full);
  await bridge.changes.until(() => `a full spool; ${bridge.lastWords}`, isFull);
}

export const spoolDamage: Scenario = {
  name: 'spool-damage',
  title: 'the last transaction of a killed bridge’s spool is torn, and rotten, at bytes spread all over it',
  run: async (context) => [
    await damage(context, 'torn', (path, at) => truncateSync(path, at)),
    await damage(context, 'rotten', (path, at) => {
      const bytes = readFileSync(path);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << context.random.between(0, 7));
      writeFileSync(path, bytes);
    }),
  ],
};

async function damage(
  { worker, count, random, say }: Context,
  label: string,
  destroy: (path: string, at: number) => void,
): Promise<Finding> {
  await using gate = await HttpGate.start(worker.url);
  await using rig = await FaultRig.open(worker, 1);
  const options = { spool: await rig.makeSpool(), workerUrl: gate.url };
  const path = join(options.spool.dir, 'spool.sqlite-wal');
  let bridge = rig.startBridge(options);
  await bridge.untilBrokerConnected();
  const places = count(100, 3);
  for (let place = 0; place < places; place += 1) {
    gate.setFaults({ refuse: () => 503 });
    await spoolOne(rig, bridge, path);
    await spoolOne(rig, bridge, path);
    const start = await untilStill(path);
    const number = await spoolOne(rig, bridge, path);
    await bridge.kill('SIGKILL');
    const { size } = statSync(path);
    const share = (size - start) / places;
    destroy(path, Math.floor(start + share * (place + random.between(0, 99) / 100)));
    rig.history.excuse(number);
    gate.setFaults({});
    bridge = rig.startBridge(options);
    await rig.untilArrived();
    if (place % 40 === 39) say(`${place + 1} places`);
  }
  return find(`${label} at ${places} places`, await rig.finish(), []);
}

/** Resolves with its number when it is in the database's log. */
async function spoolOne(rig: FaultRig, bridge: BridgeProcess, path: string): Promise<number> {
  const message = rig.maker.make();
  rig.publisher.publish(message);
  const payload = Buffer.from(message.payload);
  const deadlineMs = performance.now() + 30_000;
  while (!existsSync(path) || !readFileSync(path).includes(payload)) {
    if (performance.now() > deadlineMs) throw new Error(`the bridge does not spool; ${bridge.lastWords}`);
    await sleep(10);
  }
  return message.number;
}

/** Resolves with its size when no transaction is being written to it. */
async function untilStill(path: string): Promise<number> {
  for (let before = 0, size = statSync(path).size; ; before = size, size = statSync(path).size) {
    if (size === before) return size;
    await sleep(100);
  }
}
