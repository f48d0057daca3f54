// Limits as an operator sets them, for tests.
import { readLimits, type Limits } from '../../src/limits.ts';

/** @throws Error for the first wrong part */
export function limitsOf(text: string): Limits {
  return readLimits(text, (problem) => {
    throw new Error(problem);
  });
}
