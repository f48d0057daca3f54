// How many messages a device may send: a token bucket each, kept as the time at which it would be full again (GCRA), so
// that a device that sends little costs nothing. It must not decide what happens to a message beyond it.

export type RateLimits = { messagesPerSecond: number; burst: number };

const sweepEveryMs = 60_000;
/** After a longer absence devices may have sent more than they are allowed to make up for. */
const maxAbsenceMs = 3_600_000;

export type DeviceRates = ReturnType<typeof createDeviceRates>;

export function createDeviceRates({ messagesPerSecond, burst }: RateLimits) {
  const intervalMs = 1000 / messagesPerSecond;
  const burstMs = burst * intervalMs;
  const fullAtMs = new Map<string, number>();
  let sweepAtMs = 0;
  let absence = { ms: 0, endedAtMs: 0 };
  return { noteAbsence, take, waitMs };

  /** What devices sent while nobody read comes at once: that is no flood. */
  function noteAbsence(ms: number, nowMs: number): void {
    absence = { ms: Math.min(ms, maxAbsenceMs), endedAtMs: nowMs };
  }

  /** Whether the device may send a message now; if so, it counts. */
  function take(device: string, nowMs: number): boolean {
    if (waitMs(device, nowMs) > 0) return false;
    sweep(nowMs);
    fullAtMs.set(device, Math.max(fullAtMs.get(device) ?? 0, nowMs) + intervalMs);
    return true;
  }

  /** How long the device has to wait until it may; 0 if it may now. */
  function waitMs(device: string, nowMs: number): number {
    const fullInMs = Math.max(0, (fullAtMs.get(device) ?? 0) - nowMs) + intervalMs;
    const { ms, endedAtMs } = absence;
    const creditMs = Math.max(0, ms - (nowMs - endedAtMs));
    return Math.max(0, fullInMs - burstMs - creditMs);
  }

  function sweep(nowMs: number): void {
    if (nowMs < sweepAtMs) return;
    sweepAtMs = nowMs + sweepEveryMs;
    for (const [device, atMs] of fullAtMs) if (atMs <= nowMs) fullAtMs.delete(device);
  }
}
