// The messages of a device beyond its limit: of each topic the latest is kept in memory until the device may send again, so
// that the last of a burst takes effect. The earlier ones are dropped and counted, until the Worker has the count.
import { maxDroppedCounts } from '../../../src/protocol/bridge.ts';
import type { Metrics } from '../metrics.ts';
import type { SpooledMessage } from '../spool/spool.ts';

type RateLimits = { messagesPerSecond: number; burst: number };
type Held = { message: SpooledMessage; timer: NodeJS.Timeout };
type DroppedCount = { topic: string; count: number };

const reportEveryMs = 60_000;
const sweepEveryMs = 60_000;
/** After a longer absence devices may have sent more than they are allowed to make up for. */
const maxAbsenceMs = 3_600_000;

export type FloodGate = ReturnType<typeof createFloodGate>;

export function createFloodGate(limits: RateLimits, metrics: Metrics) {
  const rates = createDeviceRates(limits);
  /** By topic: a topic belongs to one device. */
  const held = new Map<string, Held>();
  const dropped = new Map<string, DroppedCount>();
  const reportedAtMs = new Map<string, number>();
  const gate = {
    /** Receives a message that was kept, once its device may send again. */
    onReleased: (_message: SpooledMessage): void => undefined,
    /** Nobody read the broker's session for so long, until now. */
    noteAbsence: (ms: number) => rates.noteAbsence(ms, Date.now()),
    admit,
    releaseAll,
    takeDropped,
  };
  return gate;

  /** True if the message may go on; otherwise it is kept for later, until a newer one of its topic comes. */
  function admit(message: SpooledMessage): boolean {
    const { topic } = message;
    const device = deviceOf(topic);
    const isAdmitted = rates.take(device, Date.now());
    const waiting = held.get(topic);
    if (waiting !== undefined) noteDropped(device, topic);
    if (isAdmitted) {
      clearTimeout(waiting?.timer);
      held.delete(topic);
    } else if (waiting === undefined) held.set(topic, { message, timer: releaseLater(device, topic) });
    else waiting.message = message;
    return isAdmitted;
  }

  /** Releases every kept message, whatever the limit. */
  function releaseAll(): void {
    for (const [topic, { message, timer }] of held) {
      clearTimeout(timer);
      held.delete(topic);
      gate.onReleased(message);
    }
  }

  /**
   * The counts that are due now, for each device once a minute at most. They count as reported: a count whose batch is not
   * answered is lost.
   */
  function takeDropped(nowMs: number): DroppedCount[] {
    for (const [device, atMs] of reportedAtMs) {
      if (nowMs - atMs >= reportEveryMs) reportedAtMs.delete(device);
    }
    const due = [...dropped].filter(([device]) => !reportedAtMs.has(device)).slice(0, maxDroppedCounts);
    for (const [device] of due) {
      dropped.delete(device);
      reportedAtMs.set(device, nowMs);
    }
    return due.map(([, count]) => count);
  }

  function noteDropped(device: string, topic: string): void {
    metrics.messagesDropped.inc();
    const counted = dropped.get(device);
    if (counted === undefined) dropped.set(device, { topic, count: 1 });
    else counted.count += 1;
  }

  function releaseLater(device: string, topic: string): NodeJS.Timeout {
    const waitMs = Math.ceil(rates.waitMs(device, Date.now()));
    return setTimeout(() => release(device, topic), waitMs);
  }

  function release(device: string, topic: string): void {
    const waiting = held.get(topic);
    if (waiting === undefined) return;
    if (rates.take(device, Date.now())) {
      held.delete(topic);
      gate.onReleased(waiting.message);
    } else waiting.timer = releaseLater(device, topic);
  }
}

export function deviceOf(topic: string): string {
  return topic.split('/', 4).join('/');
}

/**
 * How many messages a device may send: a token bucket each, kept as the time at which it would be full again (GCRA), so that a
 * device that sends little costs nothing.
 */
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
