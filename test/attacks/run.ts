// `npm run test:attacks`: attacks the whole system with production limits and shows what held and what it cost a
// bystander. Ends with 1 when something did not hold, with 2 when it cannot run.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { describeMachine } from '../../bench/machine.ts';
import type { Attack } from './attack.ts';
import { attacks } from './attack-list.ts';
import { Battlefield, type Outcome } from './battlefield.ts';

const usage = `npm run test:attacks -- [options]
  --only NAME[,NAME]  these attacks alone: ${attacks.map(({ name }) => name).join(', ')}
  --seconds N         how long each flood lasts (20)
  --inputs N          generated inputs of hostile-requests (1000000); the others send a share of it
  --sockets N         relay sockets and connections of an attack (2000)
  --seed N            the same inputs again; printed with every run
  --json FILE         writes everything found`;

/** A bystander's p95 may triple; below this many milliseconds nobody notices. */
const tripled = 3;
const unnoticedMs = 25;
/** The bystander alone, before each attack. */
const quietSeconds = 5;

function readOptions() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      seconds: { type: 'string' },
      inputs: { type: 'string' },
      sockets: { type: 'string' },
      seed: { type: 'string' },
      json: { type: 'string' },
    },
  });
  const names = values.only?.split(',') ?? attacks.map(({ name }) => name);
  const unknown = names.find((name) => !attacks.some((attack) => attack.name === name));
  if (unknown !== undefined) throw new Error(`--only ${unknown}: there is no such attack`);
  const whole = (name: 'seconds' | 'inputs' | 'sockets' | 'seed', fallback: number): number => {
    const value = Number(values[name] ?? fallback);
    if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} takes a whole number from 1`);
    return value;
  };
  return {
    chosen: attacks.filter(({ name }) => names.includes(name)),
    effort: {
      seconds: whole('seconds', 20),
      inputs: whole('inputs', 1_000_000),
      sockets: whole('sockets', 2_000),
      seed: whole('seed', 1 + (Date.now() % 2 ** 31)),
      clients: 16,
    },
    jsonFile: values.json === undefined ? null : resolve(values.json),
  };
}

let options: ReturnType<typeof readOptions>;
try {
  options = readOptions();
} catch (error) {
  console.error(`${(error as Error).message}\n${usage}`);
  process.exit(2);
}
const { chosen, effort, jsonFile } = options;
const { date, cores, cpu, system, versions, commit, loadAverageBefore } = describeMachine();
console.log(`${date}  ${cores} x ${cpu}, ${system}; load average before ${loadAverageBefore.join(' ')}`);
console.log(`commit ${commit}; ${Object.entries(versions).flat().join(' ')}`);
console.log(`--seconds ${effort.seconds} --inputs ${effort.inputs} --sockets ${effort.sockets} --seed ${effort.seed}`);

const field = await Battlefield.prepare(effort.seed);
const stopBySignal = (): void => void field.stop().finally(() => process.exit(130));
process.once('SIGINT', stopBySignal);
process.once('SIGTERM', stopBySignal);

const found: { attack: Attack; outcome: Outcome; failures: string[] }[] = [];
for (const attack of chosen) {
  console.log(`\n${attack.name}: ${attack.title}`);
  const outcome = await field.measure(attack, effort, quietSeconds);
  const failures = [...outcome.problems, ...outcome.bystanderFailures.map((text) => `bystander: ${text}`)];
  for (const [kind, { before, meanwhile }] of Object.entries(outcome.bystander)) {
    if (meanwhile > Math.max(before * tripled, unnoticedMs)) {
      failures.push(`bystander: ${kind} p95 from ${before.toFixed(1)} to ${meanwhile.toFixed(1)} ms`);
    }
  }
  if (attack.name === 'login-guesses') {
    const waited = await field.signInElsewhere(30_000);
    if (waited === undefined) failures.push('the owner does not get in from a new address within 30 s');
    else console.log(`  the owner gets in from a new address after ${(waited / 1000).toFixed(1)} s`);
  }
  show(outcome, failures);
  found.push({ attack, outcome, failures });
}
await field.stop();

const failed = found.filter(({ failures }) => failures.length > 0);
console.log(`\n${table()}`);
console.log(failed.length === 0 ? '\nEverything held.' : `\n${failed.length} of ${found.length} attacks did not hold.`);
if (jsonFile !== null)
  writeFileSync(jsonFile, `${JSON.stringify({ machine: describeMachine(), effort, found }, null, 2)}\n`);
process.exit(failed.length === 0 ? 0 : 1);

function show({ tried, seconds, answers, bystander, memory }: Outcome, failures: string[]): void {
  const counted = Object.entries(answers).map(([answer, count]) => `${answer} ${count}`);
  console.log(`  ${tried} tried in ${seconds.toFixed(1)} s: ${counted.join(', ')}`);
  const times = Object.entries(bystander).map(
    ([kind, { before, meanwhile }]) => `${kind} ${before.toFixed(1)} -> ${meanwhile.toFixed(1)}`,
  );
  console.log(`  bystander p95 ms: ${times.join(', ')}`);
  const sizes = Object.entries(memory).map(([part, { before, peak }]) => `${part} ${before} -> ${peak}`);
  console.log(`  memory MiB: ${sizes.join(', ')}`);
  for (const failure of failures) console.log(`  DID NOT HOLD: ${failure}`);
}

/** As docs/security.md shows it. */
function table(): string {
  const rows = found.map(({ attack, outcome, failures }) => {
    const worst = Object.entries(outcome.bystander).toSorted(
      ([, one], [, other]) => other.meanwhile / other.before - one.meanwhile / one.before,
    )[0];
    const [kind, p95] = worst ?? ['', { before: 0, meanwhile: 0 }];
    const { before, peak } = outcome.memory.worker;
    return `| ${attack.name} | ${outcome.tried} | ${failures.length === 0 ? 'held' : 'DID NOT HOLD'} | ${kind} ${p95.before.toFixed(1)} -> ${p95.meanwhile.toFixed(1)} | ${before} -> ${peak} |`;
  });
  return [
    '| attack | tried | outcome | bystander p95, worst, ms | Worker MiB |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n');
}
