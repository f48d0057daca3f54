// Runs the device core against a model: generated steps change both, and each step compares them.
import fc from 'fast-check';
import { CoreDevice } from './core-device.ts';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';

const startMs = 1_790_000_000_000;

export type Step<Model extends object> = fc.Command<Model, CoreDevice>;

/** @throws the first failure with the shortest list of steps that leads to it */
export function compareWithModel<Model extends object>(
  steps: fc.Arbitrary<Step<Model>>[],
  modelAt: (nowMs: number) => Model,
): void {
  const histories = fc.commands(steps, { maxCommands: 40, size: '+1' });
  const compare = fc.property(histories, (history) => {
    fc.modelRun(() => ({ model: modelAt(startMs), real: new CoreDevice(startMs) }), history);
  });
  fc.assert(compare, { numRuns: 500, seed: fuzzSeed });
}

/** Time goes on a little with every step. */
export function tick(model: { nowMs: number }, real: CoreDevice, byMs = 10): void {
  model.nowMs += byMs;
  real.nowMs = model.nowMs;
}
