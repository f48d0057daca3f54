// Notices that this process was suspended: stopped, paused with its machine, or starved of processor time.
// What follows from that is not decided here. The monotonic clock of Linux stands still while the machine sleeps, so the
// time of day is compared as well; setting that forward by hand looks like a suspension.

const tickMs = 500;
/** The Worker promotes another bridge 9 s after the last ping, and pings are 5 s apart: 4 s can be enough. */
const noticedAfterMs = 3000;

/**
 * Watches until the process ends. Answers a check to make before acting on data that waited to be read, too: that may be handled before
 * the timer.
 */
export function watchSuspension(onNoticed: (suspendedForMs: number) => void): () => void {
  let lastTickAtMs = performance.now();
  let lastTickTimeMs = Date.now();
  const check = (): void => {
    const sinceMs = Math.max(performance.now() - lastTickAtMs, Date.now() - lastTickTimeMs);
    lastTickAtMs = performance.now();
    lastTickTimeMs = Date.now();
    if (sinceMs > noticedAfterMs) onNoticed(sinceMs);
  };
  setInterval(check, tickMs).unref();
  return check;
}
