// The bridge's disk fails: it is full, or what lies on it is torn or rotten where the bridge was writing last. A record
// that was destroyed after its acknowledgement is gone; it must cost nothing but itself.
import { readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BridgeProcess } from '../rig/bridge-process.ts';
import { FaultRig } from './fault-rig.ts';
import { HttpGate } from './http-gate.ts';
import { find, type Context, type Finding, type Scenario } from './scenario.ts';

const messagesBefore = 2;
const magic = Buffer.from([0xb5, 0x1d]);

export const spoolFull: Scenario = {
  name: 'spool-full',
  title:
    'the Worker is away until the spool is full, the bridge is killed while it is, and the rest waits at the broker',
  run: async ({ worker, count }) => {
    const gate = await HttpGate.start(worker.url);
    const rig = await FaultRig.open(worker, 30);
    try {
      const options = {
        spool: await rig.makeSpool(),
        workerUrl: gate.url,
        environment: { SPOOL_MAX_BYTES: '262144' },
      };
      let bridge = rig.startBridge(options);
      await bridge.untilBrokerConnected();
      const rounds = count(5, 1);
      for (let round = 0; round < rounds; round += 1) {
        gate.setFaults({ refuse: () => ({ status: 503 }) });
        await rig.load(1200, 1200, () => [rig.maker.make({ padBytes: 400 })]);
        await bridge.untilLogged('the spool is full: messages wait unacknowledged at the broker');
        await bridge.kill('SIGKILL');
        bridge = rig.startBridge(options);
        await bridge.untilLogged('the spool is full: messages wait unacknowledged at the broker');
        gate.setFaults({});
        await rig.untilArrived();
      }
      return [find(`full ${rounds} times, 256 KiB`, await rig.finish(), [])];
    } finally {
      await rig.close();
      await gate.stop();
    }
  },
};

export const spoolDamage: Scenario = {
  name: 'spool-damage',
  title: 'the last record of a killed bridge’s spool is torn at every byte, and rotten at every byte',
  run: async (context) => [
    await damage(context, 'torn', (path, start, at) => truncateSync(path, start + at)),
    await damage(context, 'rotten', (path, start, at) => {
      const bytes = readFileSync(path);
      bytes[start + at] = (bytes[start + at] ?? 0) ^ (1 << context.random.between(0, 7));
      writeFileSync(path, bytes);
    }),
  ],
};

async function damage(
  { worker, isShort, count, say }: Context,
  label: string,
  destroy: (path: string, recordStart: number, at: number) => void,
): Promise<Finding> {
  const gate = await HttpGate.start(worker.url);
  const rig = await FaultRig.open(worker, 1);
  try {
    const options = { spool: await rig.makeSpool(), workerUrl: gate.url };
    let bridge = rig.startBridge(options);
    await bridge.untilBrokerConnected();
    const failures: string[] = [];
    let places = 0;
    for (let at = 0, step = 1; ; at += step) {
      gate.setFaults({ refuse: () => ({ status: 503 }) });
      const numbers = await spoolSome(rig, options.spool.dir);
      await bridge.kill('SIGKILL');
      const { path, start, bytes } = findLastRecord(options.spool.dir);
      // Every byte, or, where less is asked for, some that are spread over the record.
      step = isShort ? Math.ceil(bytes / 2.5) : Math.max(1, Math.round(100 / count(100, 100)));
      if (at >= bytes) break;
      destroy(path, start, at);
      places += 1;
      rig.history.excuse(numbers.at(-1) ?? 0);
      gate.setFaults({});
      bridge = rig.startBridge(options);
      await rig.untilArrived();
      const counted = damagedRecords(bridge);
      // Torn at its first byte there is nothing left of it to be counted.
      const expected = label === 'torn' && at === 0 ? 0 : 1;
      if (counted !== expected) failures.push(`byte ${at}: ${counted} damaged records counted`);
      if (places % 40 === 0) say(`${places} bytes`);
    }
    gate.setFaults({});
    rig.startBridge(options);
    const finding = find(`${label} at ${places} bytes`, await rig.finish(), []);
    finding.failures.push(...failures);
    return finding;
  } finally {
    await rig.close();
    await gate.stop();
  }
}

/** Resolves with their numbers when all of them lie on the disk. */
async function spoolSome(rig: FaultRig, spoolDir: string): Promise<number[]> {
  const messages = Array.from({ length: messagesBefore + 1 }, () => rig.maker.make());
  for (const message of messages) rig.publisher.publish(message);
  const last = Buffer.from(messages.at(-1)?.payload ?? '');
  const deadlineMs = performance.now() + 30_000;
  while (!segments(spoolDir).some((path) => readIfThere(path).includes(last))) {
    if (performance.now() > deadlineMs) throw new Error('the bridge does not spool');
    await sleep(10);
  }
  return messages.map(({ number }) => number);
}

function findLastRecord(spoolDir: string): { path: string; start: number; bytes: number } {
  const path = segments(spoolDir).findLast((one) => readFileSync(one).length > 0) ?? '';
  const content = readFileSync(path);
  const start = content.lastIndexOf(magic);
  return { path, start, bytes: content.length - start };
}

/** The bridge removes files that are done. */
function readIfThere(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    return Buffer.alloc(0);
  }
}

function segments(spoolDir: string): string[] {
  return readdirSync(spoolDir)
    .filter((name) => name.endsWith('.segment'))
    .sort()
    .map((name) => join(spoolDir, name));
}

function damagedRecords(bridge: BridgeProcess): number {
  const opened = bridge.lines.find(({ message }) => message === 'spool opened');
  return Number(opened?.['damagedRecords'] ?? -1);
}
