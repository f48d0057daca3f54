// `npm run bench`: starts the system on loopback, runs the benchmarks one after the other and shows what came out. Ends
// with 1 when something was lost, doubled, altered or overtaken; a missed target is shown and is no failure.
import { mosquittoMissing } from '../rig/brokers/mosquitto.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { command, directCommand } from './command.ts';
import { cost } from './cost.ts';
import { fanOut } from './fan-out.ts';
import { growth } from './growth.ts';
import { describeLoad, describeMachine } from './parts/machine.ts';
import { printResult } from './parts/results.ts';
import { benchSettings } from './parts/rig.ts';
import type { Benchmark, BenchOptions } from './parts/rounds.ts';
import { requests } from './requests.ts';
import { schedules } from './schedules.ts';
import { directUplink, uplink } from './uplink.ts';
import { wakeUp } from './wake-up.ts';

const benchmarks = [requests, uplink, directUplink, command, directCommand, fanOut, growth, cost, wakeUp, schedules];

const usage = `Usage: npm run bench -- [options]

  --only NAME      one benchmark alone: ${benchmarks.map(({ name }) => name).join(', ')}
  --variant NAME   one variant alone, by its name in the output; goes with --only
  --rounds N       rounds a variant (5; fewer are no measurement)
  --scale N        devices of the largest database of B5 (1000000)
  --quick          one short round of each, to see that everything works; judges no target`;

type Options = Pick<BenchOptions, 'rounds' | 'isQuick' | 'variant' | 'scale'> & { chosen: Benchmark[] };

function readOptions(): Options {
  const options = {
    only: { type: 'string' },
    variant: { type: 'string' },
    rounds: { type: 'string' },
    scale: { type: 'string' },
    quick: { type: 'boolean', default: false },
  } as const;
  return readCommandLine({ name: 'npm run bench', usage, options }, ({ values }) => {
    const { only, variant = null, quick: isQuick } = values;
    const rounds = Number(values.rounds ?? (isQuick ? 1 : 5));
    const scale = Number(values.scale ?? (isQuick ? 10_000 : 1_000_000));
    const chosen = benchmarks.filter(({ name }) => only === undefined || name === only);
    if (chosen.length === 0) throw new Error(`--only ${only}: there is no such benchmark`);
    if (variant !== null && only === undefined) throw new Error('--variant goes with --only');
    const variants = chosen.flatMap((benchmark) => benchmark.variants);
    if (variant !== null && !variants.includes(variant)) {
      throw new Error(`--variant '${variant}': the variants of ${only} are [${variants.join('; ')}]`);
    }
    if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds takes a whole number from 1');
    if (!Number.isInteger(scale) || scale < 2_000) throw new Error('--scale takes a whole number from 2000');
    return { chosen, variant, rounds, scale, isQuick };
  });
}

/** Stops what runs at the moment, the last part first. */
const stops: (() => Promise<unknown>)[] = [];
const keep: BenchOptions['keep'] = async (starting) => {
  const part = await starting;
  stops.push(() => part.stop());
  return part;
};

async function stopAll(): Promise<void> {
  for (let stop = stops.pop(); stop !== undefined; stop = stops.pop()) await stop();
}

const { chosen, ...options } = readOptions();
if (mosquittoMissing !== null) {
  console.error(mosquittoMissing);
  process.exit(2);
}
const stopBySignal = (): void => void stopAll().finally(() => process.exit(130));
process.once('SIGINT', stopBySignal);
process.once('SIGTERM', stopBySignal);

console.log(describeMachine());
for (const setting of benchSettings) console.log(setting);
let hasFailed = false;
try {
  for (const { name, measure } of chosen) {
    const result = await measure({ ...options, say: (line) => console.log(line), keep });
    // Each benchmark has a rig of its own: a Worker that has served others before behaves differently.
    await stopAll();
    printResult(name, result, options);
    hasFailed ||= result.failures.length > 0;
  }
} catch (error) {
  console.error(error);
  hasFailed = true;
  await stopAll();
}
console.log(`\n${options.rounds} rounds; ${describeLoad()}`);
process.exit(hasFailed ? 1 : 0);
