// Reads the metrics of a bridge over HTTP: to wait for its spool, and for its own count of accepted messages.
import { setTimeout as sleep } from 'node:timers/promises';

/** A message may be on its way between two moments. */
const looksToBelieve = 4;
const emptyWithinMs = 60_000;

/** 0 for a counter that has not begun. */
export async function readMetric(healthPort: number, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(`${name} `));
  return Number(line?.split(' ').at(-1) ?? 0);
}

/**
 * Resolves with 0 when the Worker has answered for every message of the bridge and no more come. If that takes too long, it
 * resolves with the number of messages that are left.
 */
export async function untilSpoolEmpty(healthPort: number): Promise<number> {
  const deadlineMs = performance.now() + emptyWithinMs;
  let emptyLooks = 0;
  for (;;) {
    const left = await countLeft(healthPort);
    emptyLooks = left === 0 ? emptyLooks + 1 : 0;
    if (emptyLooks === looksToBelieve) return 0;
    if (performance.now() > deadlineMs) {
      if (left === null) throw new Error('a bridge does not answer with its metrics');
      return left;
    }
    await sleep(50);
  }
}

/** Null while it does not answer: it may be starting. */
async function countLeft(healthPort: number): Promise<number | null> {
  try {
    const depth = await readMetric(healthPort, 'bridge_spool_depth');
    return depth + (await readMetric(healthPort, 'bridge_unacknowledged'));
  } catch (error) {
    // How fetch fails if it cannot connect.
    if (error instanceof TypeError) return null;
    throw error;
  }
}
