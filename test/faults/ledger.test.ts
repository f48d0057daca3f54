// The judge of due times, given histories of a device that are wrong in one way each.
import { expect, it } from 'vitest';
import type { Run } from '../../client/src/schedules.ts';
import { judgeLedger } from './rig/ledger.ts';

const dueAtMs = Date.UTC(2027, 0, 1);
const planned = { name: 'S', dueAtMs, lastMs: dueAtMs + 10_000, isAnswered: true };
const at = (lateMs: number, dueAt = new Date(dueAtMs + lateMs).toISOString()) => ({ runId: `s:${dueAt}`, dueAt });
const run: Run = { ...at(0), scheduleId: 's', name: 'S', outcome: 'acknowledged', reason: null, commandId: 'c' };
const missed: Run = { ...run, outcome: 'missed', reason: 'too_late', commandId: null };
const press = { id: 'c', atMs: dueAtMs + 9_000, params: { action: 'pulse' } };
const isUp = { ...press, params: { action: 'toggle', position: 'up' } };

it.each([
  ['a run with its press', [planned], [run], [press], []],
  ['a run without a press', [planned], [missed], [], []],
  ['no answer and no run', [{ ...planned, isAnswered: false }], [], [], []],
  ['a position that is sent again', [planned], [run], [isUp, isUp], []],
  ['a due time without an outcome', [planned], [], [], ['S has 0 outcomes']],
  ['a due time with two', [planned], [run, missed], [press], ['S has 2 outcomes']],
  ['a run that has not ended', [planned], [{ ...run, outcome: 'running' }], [], ['has not ended']],
  [
    'a run at another time',
    [planned],
    [{ ...run, ...at(60_000) }],
    [{ ...press, atMs: dueAtMs + 61_000 }],
    ['never asked'],
  ],
  ['two presses of a run', [planned], [run], [press, press], ['pressed 2 times']],
  ['a press after the grace', [planned], [run], [{ ...press, atMs: dueAtMs + 12_000 }], ['pressed 12000 ms after']],
  ['a press before its time', [planned], [run], [{ ...press, atMs: dueAtMs - 2_000 }], ['pressed -2000 ms after']],
  ['a press of a missed run', [planned], [{ ...missed, commandId: 'c' }], [press], ['is missed (too_late)']],
  ['a press without a run', [planned], [missed], [press], ['without a run']],
  ['a confirmation of nothing', [planned], [{ ...run, outcome: 'confirmed' }], [], ['was not heard']],
] satisfies [string, object[], Run[], object[], string[]][])('judges %s', (_, plans, runs, presses, failures) => {
  expect(judgeLedger(plans, runs, presses)).toEqual(failures.map((text) => expect.stringContaining(text) as string));
});
