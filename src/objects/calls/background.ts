// Work of an object beside the call that caused it. A failure is logged and goes nowhere else.
import { describeError, log } from '../../log.ts';

export function inBackground(ctx: DurableObjectState, what: string, work: Promise<unknown>): void {
  ctx.waitUntil(waitable(ctx, what, work));
}

/** Returns when the work has ended, in whatever way, also for callers who do not wait. */
export function waitable(ctx: DurableObjectState, what: string, work: Promise<unknown>): Promise<void> {
  const ended = work.then(
    () => undefined,
    (error: unknown) => log('error', 'background work failed', { what, object: ctx.id.name, ...describeError(error) }),
  );
  ctx.waitUntil(ended);
  return ended;
}

/** The result of the work, or `failed`: then the failure is logged. */
export async function orFailed<T>(
  failure: string,
  about: Record<string, unknown>,
  work: Promise<T>,
): Promise<T | 'failed'> {
  try {
    return await work;
  } catch (error) {
    log('warn', failure, { ...about, ...describeError(error) });
    return 'failed';
  }
}
