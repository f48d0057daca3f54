// Waits for work no longer than a time. The work goes on by itself.

/** How long a batch of reports waits for one object. Far below the 15 s for which a bridge waits for its answer. */
export const objectAnswerMs = 3_000;

/** Undefined if the work takes longer. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  const deadline = startDeadline(ms);
  return Promise.race([work, deadline.passed]).finally(deadline.stop);
}

/** `passed` resolves after `ms`, unless it was stopped before. */
export function startDeadline(ms: number): { passed: Promise<undefined>; stop: () => void } {
  const { promise: passed, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), ms);
  return { passed, stop: () => clearTimeout(timer) };
}
