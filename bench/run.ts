// `npm run bench`: starts the system on loopback, runs the benchmarks one after the other and shows what came out. Ends
// with 1 when something was lost, doubled, altered or overtaken; a missed target is shown and is no failure.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { commandDevices, directCommandDevices, measureCommands, measureDirectCommands } from './command.ts';
import { directDevicesOf, directVariants, measureDirect } from './direct.ts';
import { describeMachine, readLoadAverage } from './parts/machine.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { mosquittoMissing } from '../rig/brokers/mosquitto.ts';
import { judge, printResult, type BenchResult } from './parts/results.ts';
import { costRigs, costVariants, measureCost } from './cost.ts';
import { measureFanOut, startFanOut } from './fan-out.ts';
import { growthRig, growthSizes, growthVariants, measureGrowth } from './growth.ts';
import { measureRequests, requestVariants, startRequests } from './requests.ts';
import { BenchRig, benchSettings } from './parts/rig.ts';
import type { BenchOptions } from './parts/rounds.ts';
import { WorkerRig } from '../rig/worker/worker-rig.ts';
import { measureWakeUp, wakeUpRig } from './wake-up.ts';
import { measureUplink, uplinkDevices, uplinkVariants } from './uplink.ts';

const usage = `Usage: npm run bench -- [options]

  --only NAME      one benchmark alone: B1, B2, B2e, B3, B3e, B4, B5, B6, B7
  --variant NAME   one variant alone, by its name in the output; goes with --only
  --rounds N       rounds a variant (5; fewer are no measurement)
  --scale N        devices of the largest database of B5 (1000000)
  --quick          one short round of each, to see that everything works; judges no target
  --json FILE      writes everything found, every round of it`;

type Options = {
  only: string | null;
  variant: string | null;
  rounds: number;
  scale: number;
  isQuick: boolean;
  jsonFile: string | null;
};

function readOptions(): Options {
  const options = {
    only: { type: 'string' },
    variant: { type: 'string' },
    rounds: { type: 'string' },
    scale: { type: 'string' },
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
  } as const;
  return readCommandLine({ name: 'npm run bench', usage, options }, ({ values }) => {
    const { only = null, variant = null, quick: isQuick } = values;
    const rounds = Number(values.rounds ?? (isQuick ? 1 : 5));
    const scale = Number(values.scale ?? (isQuick ? 10_000 : 1_000_000));
    if (only !== null && !benchmarks.some(({ name }) => name === only)) {
      throw new Error(`--only ${only}: there are ${benchmarks.map(({ name }) => name).join(', ')}`);
    }
    if (variant !== null) checkVariant(variant, only);
    if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds takes a whole number from 1');
    if (!Number.isInteger(scale) || scale < 2_000) throw new Error('--scale takes a whole number from 2000');
    const jsonFile = values.json === undefined ? null : resolve(values.json);
    return { only, variant, rounds, scale, isQuick, jsonFile };
  });
}

const nothing: Pick<Benchmark, 'name' | 'variants'> = { name: '', variants: [] };

/** @throws Error naming the right ones */
function checkVariant(variant: string, only: string | null): void {
  const { name, variants } = benchmarks.find((benchmark) => benchmark.name === (only ?? 'B2')) ?? nothing;
  if (variants.length === 0) {
    const others = benchmarks.filter((benchmark) => benchmark.variants.length > 0).map((benchmark) => benchmark.name);
    throw new Error(`--variant is of ${others.join(', ')}: it does not go with --only ${name}`);
  }
  if (variants.includes(variant)) return;
  throw new Error(`--variant '${variant}': there are ${variants.map((name) => `'${name}'`).join(', ')}`);
}

type Part = { stop: () => Promise<void> };
/** What runs at the moment, to be stopped in any case; the last one first. */
const running: Part[] = [];

async function keep<T extends Part>(starting: Promise<T>): Promise<T> {
  const part = await starting;
  running.push(part);
  return part;
}

async function stopAll(): Promise<void> {
  for (let part = running.pop(); part !== undefined; part = running.pop()) await part.stop();
}

type Benchmark = {
  name: string;
  variants: readonly string[];
  measure: (options: BenchOptions) => Promise<BenchResult>;
};

function onBroker(
  devicesOf: (variant: string | null) => number,
  measure: (rig: BenchRig, options: BenchOptions) => Promise<BenchResult>,
): Benchmark['measure'] {
  return async (options) => measure(await keep(BenchRig.start({ deviceCount: devicesOf(options.variant) })), options);
}

const benchmarks: Benchmark[] = [
  {
    name: 'B1',
    variants: requestVariants,
    measure: async (options) => measureRequests(await keep(startRequests()), options),
  },
  { name: 'B2', variants: uplinkVariants, measure: onBroker(() => uplinkDevices, measureUplink) },
  { name: 'B2e', variants: directVariants, measure: onBroker(directDevicesOf, measureDirect) },
  { name: 'B3', variants: [], measure: onBroker(() => commandDevices, measureCommands) },
  { name: 'B3e', variants: [], measure: onBroker(() => directCommandDevices, measureDirectCommands) },
  {
    name: 'B4',
    variants: [],
    measure: async (options) => measureFanOut(await keep(startFanOut()), options),
  },
  {
    name: 'B5',
    variants: growthVariants,
    measure: async (options) => {
      const rigs: WorkerRig[] = [];
      for (const size of growthSizes(options.scale))
        rigs.push(await keep(WorkerRig.start(growthRig(size, options.say))));
      return measureGrowth(rigs, options);
    },
  },
  {
    name: 'B6',
    variants: costVariants,
    measure: async (options) => {
      const rigs: WorkerRig[] = [];
      for (const rig of costRigs) rigs.push(await keep(WorkerRig.start(rig)));
      return measureCost(rigs, options);
    },
  },
  {
    name: 'B7',
    variants: [],
    measure: async (options) => measureWakeUp(await keep(WorkerRig.start(wakeUpRig)), options),
  },
];

/** Each benchmark has a rig of its own: a Worker that has served others before behaves differently. */
async function runAll({ only, variant, ...options }: Options): Promise<BenchResult[]> {
  const results: BenchResult[] = [];
  for (const { name, measure } of benchmarks) {
    if (only !== null && only !== name) continue;
    // A variant of one is none of another.
    if (variant !== null && name !== (only ?? 'B2')) continue;
    results.push(await measure({ ...options, variant, say: (line) => console.log(line) }));
    await stopAll();
  }
  return results;
}

function fail(error: unknown, code: number): never {
  for (let cause = error, isCause = false; cause !== undefined && cause !== null; isCause = true) {
    console.error(`${isCause ? '  because: ' : ''}${cause instanceof Error ? cause.message : JSON.stringify(cause)}`);
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  process.exit(code);
}

const options = readOptions();
if (mosquittoMissing !== null) fail(mosquittoMissing, 2);

const machine = describeMachine();
console.log(`${machine.date}  ${machine.cores} x ${machine.cpu}, ${machine.memoryGiB} GiB, ${machine.system}`);
const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`);
console.log(versions.join(', '));
console.log(`commit ${machine.commit}; load average before ${machine.loadAverageBefore.join(' ')}`);
for (const setting of benchSettings) console.log(setting);

let isStopping = false;
const stopBySignal = (): void => {
  if (isStopping) return;
  isStopping = true;
  stopAll().then(
    () => process.exit(130),
    (error: unknown) => fail(error, 1),
  );
};
process.on('SIGINT', stopBySignal);
process.on('SIGTERM', stopBySignal);

let results: BenchResult[];
try {
  results = await runAll(options);
} catch (error) {
  const code = running.length === 0 ? 2 : 1;
  await stopAll();
  fail(error, code);
}
const loadAverageAfter = readLoadAverage();

for (const result of results) printResult(result);
console.log(`\n${options.rounds} rounds; load average after ${loadAverageAfter.join(' ')}`);
if (options.jsonFile !== null) {
  const judged = results.map((result) => ({ ...result, measures: result.measures.map(judge) }));
  const document = { machine: { ...machine, loadAverageAfter }, settings: benchSettings, options, results: judged };
  writeFileSync(options.jsonFile, `${JSON.stringify(document, null, 2)}\n`);
}
process.exit(results.some(({ failures }) => failures.length > 0) ? 1 : 0);
