// Asks a running part for a sign of life, again and again. Does not decide what follows when there is none.
import { setTimeout as sleep } from 'node:timers/promises';

/** Each has its own time, so that a pause of this process or of the machine is one missed answer and not the limit. */
const questionsPerLimit = 4;

/** Resolves with true when no answer came for `limitMs`, with false when `ended` is aborted before. */
export async function isLifeless(
  askForLife: (signal: AbortSignal) => Promise<void>,
  limitMs: number,
  ended: AbortSignal,
): Promise<boolean> {
  const turnMs = limitMs / questionsPerLimit;
  for (let missed = 0; missed < questionsPerLimit && !ended.aborted;) {
    const turn = AbortSignal.any([ended, AbortSignal.timeout(turnMs)]);
    const [isAlive] = await Promise.all([askForLife(turn).then(isTrue, isFalse), untilAborted(turn)]);
    missed = isAlive ? 0 : missed + 1;
  }
  return !ended.aborted;
}

/** With a timer of its own: that of the signal keeps no process running. */
function untilAborted(signal: AbortSignal): Promise<void> {
  return sleep(2 ** 30, undefined, { signal }).then(undefined, () => undefined);
}

const isTrue = (): boolean => true;
const isFalse = (): boolean => false;
