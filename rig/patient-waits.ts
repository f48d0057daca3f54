// `vi.waitFor` and `vi.waitUntil` give up after a second unless they are told otherwise, which is too soon beside a dozen other
// test processes. Runs before each test file.
import { vi } from 'vitest';

const patience = { timeout: 90_000 };
const { waitFor, waitUntil } = vi;

type WaitOptions = Parameters<typeof waitFor>[1];

function patient(options: WaitOptions): WaitOptions {
  return typeof options === 'number' ? options : { ...patience, ...options };
}

vi.waitFor = (callback, options) => waitFor(callback, patient(options));
vi.waitUntil = (callback, options) => waitUntil(callback, patient(options));
