// How many inputs the fuzzers send in all, and the seed of everything that fast-check generates: vitest.config.ts provides
// both from the environment.
import { inject } from 'vitest';

declare module 'vitest' {
  // eslint-disable-next-line @typescript-eslint/consistent-type-definitions -- only interfaces merge
  interface ProvidedContext {
    fuzzRuns: number;
    fuzzSeed: number;
  }
}

/** The same seed makes the same inputs again; fast-check prints it if a property fails. */
export const fuzzSeed = inject('fuzzSeed');

/** `batches` of `size` inputs each are the given share of all; the same `seed` sends the same again. */
export function planFuzzing(share: number, size: number) {
  const batches = Math.ceil((inject('fuzzRuns') * share) / size);
  return { batches, inputs: batches * size, seed: fuzzSeed };
}
