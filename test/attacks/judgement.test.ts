// When an attack slowed a bystander down: one stall does not count, what comes back in every run does.
import { expect, it } from 'vitest';
import { kinds, type Measured } from './rig/bystander.ts';
import { compareRounds, findSlowed, joinRuns, type Outcome } from './rig/judgement.ts';

const flat = (ms: number): number[] => Array.from({ length: 40 }, () => ms);

function measured(status: number[]): Measured {
  return { times: { status, list: flat(5), command: flat(5), activation: flat(5) }, waited: 0, failures: [] };
}

function outcomeOf(meanwhile: number, more: Partial<Outcome> = {}): Outcome {
  const calm = { before: 5, meanwhile: 5 };
  return {
    ...{ name: 'flood', runs: 1, tried: 10, seconds: 3, attackerCpu: 0.5, answers: { 200: 10 }, problems: [] },
    ...{ bystanderFailures: [], waitedShare: 0 },
    bystander: { status: { before: 5, meanwhile }, list: calm, command: calm, activation: calm },
    ...more,
  };
}

it('a stall in each round, or a round that is slow as a whole, is not the attack', () => {
  const stalled = measured([...flat(5).slice(1), 500]);
  const slow = measured(flat(500));
  expect(findSlowed(compareRounds(Array(4).fill(measured(flat(5))), [stalled, stalled, stalled]))).toEqual([]);
  expect(findSlowed(compareRounds(Array(4).fill(measured(flat(5))), [slow, stalled, stalled]))).toEqual([]);
});

it('one answer in ten that is slow in most rounds is, beyond 100 ms or what the attack may cost', () => {
  const slowed = (ms: number) => measured([...flat(5).slice(4), ...flat(ms).slice(0, 4)]);
  const calm = Array(4).fill(measured(flat(10)));
  const against = (ms: number) => compareRounds(calm, [measured(flat(5)), slowed(ms), slowed(ms)]);
  expect(findSlowed(against(101))).toEqual(['status p95 from 10.0 to 101.0 ms']);
  expect(findSlowed(against(99))).toEqual([]);
  expect(findSlowed(against(251), 250)).toEqual(['status p95 from 10.0 to 251.0 ms']);
  expect(findSlowed(against(249), 250)).toEqual([]);
});

it('a kind that was never answered in a round is judged by the others', () => {
  const { status } = compareRounds([measured(flat(5))], [measured([]), measured(flat(50)), measured(flat(60))]);
  expect(status).toEqual({ before: 5, meanwhile: 55 });
});

it('of three runs the median counts for the bystander, and every failure for itself', () => {
  expect(findSlowed(joinRuns([outcomeOf(500), outcomeOf(6), outcomeOf(7)]).bystander)).toEqual([]);
  const slowed = joinRuns([outcomeOf(500), outcomeOf(6), outcomeOf(400)]);
  expect(findSlowed(slowed.bystander)).toEqual(['status p95 from 5.0 to 400.0 ms']);
  expect(slowed).toMatchObject({ runs: 3, tried: 30, answers: { 200: 30 }, seconds: 9, attackerCpu: 0.5 });
  const failed = joinRuns([
    outcomeOf(5),
    outcomeOf(5, { problems: ['500'] }),
    outcomeOf(5, { bystanderFailures: ['429'] }),
  ]);
  expect(failed).toMatchObject({ problems: ['500'], bystanderFailures: ['429'] });
  expect(Object.keys(failed.bystander)).toEqual([...kinds]);
});
