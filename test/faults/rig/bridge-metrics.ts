// Reads the metrics of a bridge over HTTP: to wait for its spool, and for its own count of accepted messages.
import { eventually } from '../../../rig/changes.ts';

/** A message may be on its way between two moments. */
const looksToBelieve = 10;
const emptyWithinMs = 60_000;

/** 0 for a counter that has not begun. */
export async function readMetric(healthPort: number, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text();
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${name} `));
  return Number(line?.split(' ').at(-1) ?? 0);
}

/** Resolves when the Worker has answered for every message of the bridge and no more come. @throws Error if it does not */
export async function untilSpoolEmpty(healthPort: number): Promise<void> {
  let left: number | null = null;
  let emptyLooks = 0;
  const describe = () => (left === null ? 'an answer of a bridge' : `an empty spool; ${left} messages are left`);
  const isEmpty = async () => {
    left = await countLeft(healthPort);
    emptyLooks = left === 0 ? emptyLooks + 1 : 0;
    return emptyLooks === looksToBelieve;
  };
  await eventually(describe, isEmpty, emptyWithinMs);
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
