// Notices that this process was suspended: stopped, paused with its machine, or starved of processor time.
// What follows from that is not decided here. The monotonic clock of Linux stands still while the machine sleeps, so the
// time of day is compared as well; setting that forward by hand looks like a suspension.

const tickMs = 500;
/** The Worker promotes another bridge 9 s after the last ping, and pings are 5 s apart: 4 s can be enough. */
const noticedAfterMs = 3000;

export function watchSuspension(onNoticed: (suspendedForMs: number) => void) {
  let lastTickAtMs = 0;
  let lastTickTimeMs = 0;
  let timer: NodeJS.Timeout | undefined;
  const noteTick = (): void => {
    lastTickAtMs = performance.now();
    lastTickTimeMs = Date.now();
  };
  /** Call it before acting on data that waited to be read, too: that may be handled before the timer. */
  const check = (): void => {
    if (timer === undefined) return;
    const sinceMs = Math.max(performance.now() - lastTickAtMs, Date.now() - lastTickTimeMs);
    noteTick();
    if (sinceMs > noticedAfterMs) onNoticed(sinceMs);
  };
  const start = (): void => {
    noteTick();
    timer ??= setInterval(check, tickMs).unref();
  };
  const stop = (): void => {
    clearInterval(timer);
    timer = undefined;
  };
  return { start, stop, check };
}
