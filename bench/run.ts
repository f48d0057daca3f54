// `npm run bench`: starts the system on loopback, runs the benchmarks one after the other and shows what came out. Ends
// with 1 when something was lost, doubled, altered or overtaken; a missed target is shown and is no failure.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { commandDevices, measureCommands } from './command.ts';
import { edgeCommandDevices, measureEdgeCommands } from './edge-command.ts';
import { edgeDevices, edgeVariants, measureEdge } from './edge.ts';
import { describeMachine, readLoadAverage } from './machine.ts';
import { readCommandLine } from '../test/rig/command-line.ts';
import { mosquittoMissing } from '../test/rig/mosquitto.ts';
import { judge, printResult, type BenchResult } from './results.ts';
import { BenchRig, benchSettings } from './rig.ts';
import { measureUplink, uplinkDevices, uplinkVariants } from './uplink.ts';

const usage = `Usage: npm run bench -- [options]

  --only B2|B2e|B3|B3e  one benchmark alone
  --variant NAME   one variant of B2 or B2e alone, by its name in the output
  --rounds N       rounds a variant (5; fewer are no measurement)
  --quick          one short round of each, to see that everything works; judges no target
  --json FILE      writes everything found, every round of it
  --profile DIR    leaves a V8 CPU profile of each bridge process there`;

type Options = {
  only: string | null;
  variant: string | null;
  rounds: number;
  isQuick: boolean;
  jsonFile: string | null;
  profileDir: string | null;
};

function readOptions(): Options {
  const options = {
    only: { type: 'string' },
    variant: { type: 'string' },
    rounds: { type: 'string' },
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
    profile: { type: 'string' },
  } as const;
  return readCommandLine({ name: 'npm run bench', usage, options }, ({ values }) => {
    const { only = null, variant = null, quick: isQuick } = values;
    const rounds = Number(values.rounds ?? (isQuick ? 1 : 5));
    if (only !== null && !benchmarks.some(({ name }) => name === only)) {
      throw new Error(`--only ${only}: there are ${benchmarks.map(({ name }) => name).join(', ')}`);
    }
    if (variant !== null) checkVariant(variant, only);
    if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds takes a whole number from 1');
    const jsonFile = values.json === undefined ? null : resolve(values.json);
    const profileDir = values.profile === undefined ? null : resolve(values.profile);
    return { only, variant, rounds, isQuick, jsonFile, profileDir };
  });
}

/** @throws Error naming the right ones */
function checkVariant(variant: string, only: string | null): void {
  const named = only === 'B2e' ? edgeVariants : only === null || only === 'B2' ? uplinkVariants : undefined;
  if (named === undefined) throw new Error('--variant is of B2 and B2e: it does not go with --only B3 or B3e');
  if (named.includes(variant)) return;
  throw new Error(`--variant '${variant}': there are ${named.map((name) => `'${name}'`).join(', ')}`);
}

const benchmarks = [
  {
    name: 'B2',
    deviceCount: uplinkDevices,
    measure: (rig: BenchRig, { variant, ...shared }: Options, say: Say) =>
      measureUplink(rig, { ...shared, only: variant, say }),
  },
  {
    name: 'B2e',
    deviceCount: edgeDevices,
    measure: (rig: BenchRig, { variant, ...shared }: Options, say: Say) =>
      measureEdge(rig, { ...shared, only: variant, say }),
  },
  {
    name: 'B3e',
    deviceCount: edgeCommandDevices,
    measure: (rig: BenchRig, shared: Options, say: Say) => measureEdgeCommands(rig, { ...shared, say }),
  },
  {
    name: 'B3',
    deviceCount: commandDevices,
    measure: (rig: BenchRig, shared: Options, say: Say) => measureCommands(rig, { ...shared, say }),
  },
];
type Say = (line: string) => void;

/** Each benchmark has a rig of its own: a Worker that has served others before is another Worker. */
async function runAll(options: Options): Promise<BenchResult[]> {
  const results: BenchResult[] = [];
  for (const { name, deviceCount, measure } of benchmarks) {
    if (options.only !== null && options.only !== name) continue;
    // A variant of one is none of another.
    if (options.variant !== null && name !== (options.only ?? 'B2')) continue;
    rig = await BenchRig.start({ deviceCount, profileDir: options.profileDir });
    results.push(await measure(rig, options, (line) => console.log(line)));
    await rig.stop();
    rig = undefined;
  }
  return results;
}

function fail(error: unknown, code: number): never {
  console.error(error instanceof Error ? error.message : String(error));
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

let rig: BenchRig | undefined;
let isStopping = false;
const stopBySignal = (): void => {
  if (isStopping) return;
  isStopping = true;
  Promise.resolve(rig?.stop()).then(
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
  await rig?.stop();
  fail(error, rig === undefined ? 2 : 1);
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
