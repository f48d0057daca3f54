// Whether the uplink moves, and why not: what health and metrics show. Says once that messages wait and none leaves the spool
// for longer than is usual, and once that this is over. It must not decide when anything is sent.
import type { Log } from '../../../node-service/log.ts';
import type { StallReason, UplinkStall } from '../../../src/protocol/bridge.ts';
import type { Spool } from '../spool/spool.ts';

type Options = {
  spool: Spool;
  oldestReceivedAtMs: () => number;
  stalledAfterMs: number;
  log: Log;
  onStall: (stall: UplinkStall | null) => void;
};

const lookEveryMs = 1000;

export function watchProgress({ spool, oldestReceivedAtMs, stalledAfterMs, log, onStall }: Options) {
  let lastDoneAtMs = Date.now();
  let reported: UplinkStall | null = null;
  const timer = setInterval(look, lookEveryMs).unref();
  const progress = {
    /** Why nothing moves, if nothing does. */
    trouble: 'devices_not_served' as StallReason,
    oldestAgeMs: () => Math.max(0, Date.now() - oldestReceivedAtMs()),
    findStall,
    stalledSeconds: () => Math.round((Date.now() - (findStall()?.sinceMs ?? Date.now())) / 1000),
    noteDone: () => (lastDoneAtMs = Date.now()),
    report,
    stop: () => clearInterval(timer),
  };
  return progress;

  /** Null while the uplink moves, or has not stood for long. A disk that refuses counts at once: no message comes in. */
  function findStall(): UplinkStall | null {
    if (spool.refusedSinceMs !== null) return { reason: 'spool_full', sinceMs: spool.refusedSinceMs };
    if (spool.depth === 0) return null;
    const oldestAtMs = oldestReceivedAtMs();
    const sinceMs = Math.max(lastDoneAtMs, oldestAtMs === Infinity ? 0 : oldestAtMs);
    if (Date.now() - sinceMs < stalledAfterMs) return null;
    return { reason: spool.isUnreadable ? 'spool_unreadable' : progress.trouble, sinceMs };
  }

  /** Tells the Worker, which does not know after a new link. */
  function report(): void {
    reported = findStall();
    onStall(reported);
  }

  function look(): void {
    const stall = findStall();
    if (stall?.reason === reported?.reason && stall?.sinceMs === reported?.sinceMs) return;
    if (stall === null) log.info('the uplink moves again');
    else {
      const fields = { alarm: true, reason: stall.reason, stalledSeconds: progress.stalledSeconds() };
      log.error('the uplink stands still: messages wait in the spool', fields);
    }
    report();
  }
}
