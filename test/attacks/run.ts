// `npm run test:attacks`: attacks the whole system with production limits and shows what held and what it cost a
// bystander. Ends with 1 when something did not hold, with 2 when it cannot run.
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describeMachine } from '../../bench/parts/machine.ts';
import { readCommandLine } from '../../rig/command-line.ts';
import type { Attack, Effort } from './rig/attack.ts';
import { attacks } from './attack-list.ts';
import { Battlefield } from './rig/battlefield.ts';
import { findSlowed, joinRuns, runsOfSlowing, type Outcome } from './rig/judgement.ts';
import { tableOf, type Judged } from './rig/table.ts';

/** workerd flushes to the disk in the thread that answers: what a disk is doing would be in every figure. */
const memoryDir = '/dev/shm';
const usage = `Usage: npm run test:attacks -- [options]

  --only NAME[,NAME]  these attacks alone: ${attacks.map(({ name }) => name).join(', ')}
  --rounds N          how often each is tried, a quiet period before each and after the last (3)
  --seconds N         how long each round and each quiet period lasts (3)
  --sockets N         connections of an attack (500)
  --seed N            the same inputs again; printed with every run

  LIMITS  limits in place of the defaults (docs/limits.md), to see what they are worth
  TMPDIR  where database and objects are; without it in memory (${memoryDir}), where there is room`;

const limits = process.env['LIMITS'] ?? '';
if (process.env['TMPDIR'] === undefined && existsSync(memoryDir)) process.env['TMPDIR'] = memoryDir;

function readOptions() {
  const options = {
    only: { type: 'string' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    sockets: { type: 'string' },
    seed: { type: 'string' },
  } as const;
  return readCommandLine({ name: 'npm run test:attacks', usage, options }, ({ values }) => {
    const names = values.only?.split(',') ?? attacks.map(({ name }) => name);
    const unknown = names.find((name) => !attacks.some((attack) => attack.name === name));
    if (unknown !== undefined) throw new Error(`--only ${unknown}: there is no such attack`);
    const whole = (name: 'rounds' | 'seconds' | 'sockets' | 'seed', fallback: number): number => {
      const value = Number(values[name] ?? fallback);
      if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} takes a whole number from 1`);
      return value;
    };
    const seconds = whole('seconds', 3);
    const effort: Effort = {
      ...{ seconds, clients: 16, sockets: whole('sockets', 500) },
      seed: whole('seed', 1 + (Date.now() % 2 ** 31)),
    };
    return {
      chosen: attacks.filter(({ name }) => names.includes(name)),
      effort,
      plan: { rounds: whole('rounds', 3), quietSeconds: seconds },
    };
  });
}

const { chosen, effort, plan } = readOptions();
const startedAt = performance.now();
const only = chosen.length < attacks.length ? `--only ${chosen.map(({ name }) => name).join(',')} ` : '';
const settings = `${only}--rounds ${plan.rounds} --seconds ${effort.seconds} --sockets ${effort.sockets} --seed ${effort.seed}`;
console.log(describeMachine());
console.log(`${limits === '' ? '' : `LIMITS=${limits} `}${settings}; database and objects in ${tmpdir()}`);

const judged = await attackAll();
console.log(`\n${tableOf(judged)}`);
const failed = judged.filter(({ failures }) => failures.length > 0).length;
const minutes = ((performance.now() - startedAt) / 60_000).toFixed(1);
const verdict = failed === 0 ? 'Everything held' : `${failed} of ${judged.length} attacks did not hold`;
console.log(`\n${verdict} after ${minutes} minutes.`);
process.exit(failed === 0 ? 0 : 1);

async function attackAll(): Promise<Judged[]> {
  const field = await Battlefield.prepare(effort.seed, limits);
  const stopBySignal = (): void => void field.stop().finally(() => process.exit(130));
  process.once('SIGINT', stopBySignal);
  process.once('SIGTERM', stopBySignal);
  const all: Judged[] = [];
  for (const attack of chosen) {
    console.log(`\n${attack.name}: ${attack.title}`);
    const outcome = await measureUntilSure(field, attack);
    const failures = await judge(field, attack, outcome);
    for (const failure of failures) console.log(`  DID NOT HOLD: ${failure}`);
    all.push({ outcome, failures });
  }
  await field.stop();
  process.off('SIGINT', stopBySignal).off('SIGTERM', stopBySignal);
  return all;
}

/** Who was slowed down too much is so in the median of several runs, or it was something else. */
async function measureUntilSure(field: Battlefield, attack: Attack): Promise<Outcome> {
  const first = await field.measure(attack, effort, plan);
  show(first);
  const runs: [Outcome, ...Outcome[]] = [first];
  const slowed = findSlowed(first.bystander, attack.slowsToMs);
  if (slowed.length === 0) return first;
  console.log(`  ${slowed.join(', ')}: again`);
  while (runs.length < runsOfSlowing) {
    const next = await field.measure(attack, effort, plan);
    show(next);
    runs.push(next);
  }
  return joinRuns(runs);
}

async function judge(field: Battlefield, attack: Attack, outcome: Outcome): Promise<string[]> {
  const { problems, bystanderFailures, bystander } = outcome;
  const failures = [
    ...problems,
    ...[...bystanderFailures, ...findSlowed(bystander, attack.slowsToMs)].map((text) => `bystander: ${text}`),
  ];
  if (attack.name !== 'login-guesses') return failures;
  const waited = await field.signInElsewhere(30_000);
  if (waited === undefined) failures.push('the owner does not get in from a new address within 30 s');
  else console.log(`  the owner gets in from a new address after ${(waited / 1000).toFixed(1)} s`);
  return failures;
}

function show({ tried, seconds, attackerCpu, answers, bystander, waitedShare }: Outcome): void {
  const counted = Object.entries(answers).map(([answer, count]) => `${answer} ${count}`);
  console.log(
    `  ${tried} tried in ${seconds.toFixed(1)} s with ${attackerCpu.toFixed(2)} cores: ${counted.join(', ')}`,
  );
  const times = Object.entries(bystander).map(
    ([kind, { before, meanwhile }]) => `${kind} ${before.toFixed(1)} -> ${meanwhile.toFixed(1)}`,
  );
  const waited = `without ${Math.round(waitedShare * 100)} % of waiting for a processor`;
  console.log(`  bystander p95 ms, ${waited}: ${times.join(', ')}`);
}
