// For work that nobody awaits.

/** An error that the work does not handle itself is a fault of this program, and ends the process. */
export function runDetached(work: Promise<unknown>): void {
  work.catch((error: unknown) => {
    queueMicrotask(() => {
      throw error;
    });
  });
}
