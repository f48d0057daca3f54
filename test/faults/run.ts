// `npm run test:faults`: runs the scenarios one after the other on loopback and shows what became of each message. Ends
// with 1 when a target is missed, with 2 when it cannot run.
import { describeMachine } from '../../bench/parts/machine.ts';
import { readCommandLine } from '../../rig/command-line.ts';
import { mosquittoMissing } from '../../rig/brokers/mosquitto.ts';
import { Random } from '../../rig/inputs/random.ts';
import { describeFinding, type Scenario } from './rig/scenario.ts';
import { scenarios } from './scenarios.ts';
import { startFaultWorker } from './rig/fault-rig.ts';

const usage = `Usage: npm run test:faults -- [options]

  --only NAME[,NAME]  these scenarios alone: ${scenarios.map(({ name }) => name).join(', ')}
  --seed N            the same choices again; printed with every run
  --scale F           counts and durations of the full run times F (1)`;

type Options = { chosen: Scenario[]; seed: number; scale: number };

function readOptions(): Options {
  const options = {
    only: { type: 'string' },
    seed: { type: 'string' },
    scale: { type: 'string' },
  } as const;
  return readCommandLine({ name: 'npm run test:faults', usage, options }, ({ values }) => {
    const names = values.only?.split(',') ?? scenarios.map(({ name }) => name);
    const unknown = names.find((name) => !scenarios.some((scenario) => scenario.name === name));
    if (unknown !== undefined) throw new Error(`--only ${unknown}: there is no such scenario`);
    const seed = Number(values.seed ?? Date.now() % 2 ** 31);
    if (!Number.isInteger(seed) || seed < 0) throw new Error('--seed takes a whole number from 0');
    const scale = Number(values.scale ?? 1);
    if (!(scale > 0)) throw new Error('--scale takes a number above 0');
    const chosen = scenarios.filter(({ name }) => names.includes(name));
    return { chosen, seed, scale };
  });
}

const { chosen, seed, scale } = readOptions();
if (mosquittoMissing !== null) {
  console.error(mosquittoMissing);
  process.exit(2);
}

console.log(describeMachine());
console.log(`--seed ${seed} --scale ${scale}`);

const worker = await startFaultWorker();
const stopBySignal = (): void => {
  void worker.stop().finally(() => process.exit(130));
};
process.once('SIGINT', stopBySignal);
process.once('SIGTERM', stopBySignal);

let failed = 0;
for (const { name, title, seenBy, run } of chosen) {
  const startedAtMs = performance.now();
  console.log(`\n${name}: ${title}`);
  if (seenBy !== undefined) console.log(`  effects are seen by ${seenBy}`);
  try {
    const findings = await run({
      worker,
      random: new Random(seed),
      isShort: false,
      count: (full) => Math.max(1, Math.round(full * scale)),
      say: (line) => console.log(`  ... ${line}`),
    });
    for (const finding of findings) {
      console.log(`  ${describeFinding(finding)}`);
      if (finding.failures.length > 0) failed += 1;
    }
  } catch (error) {
    failed += 1;
    console.log(`  FAILED: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  }
  console.log(`  ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`);
}
await worker.stop();
console.log(failed === 0 ? '\nEvery target is met.' : `\n${failed} targets are missed.`);
process.exit(failed === 0 ? 0 : 1);
