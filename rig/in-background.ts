// Work that nobody awaits: its failure is an uncaught exception, which ends the process or fails the test run.
export function inBackground(work: Promise<unknown>): void {
  work.catch((error: unknown) => {
    process.nextTick(() => {
      throw error;
    });
  });
}
