// What the bridges' own sessions say of the broker: if it has lost one of them, it has forgotten all sessions, those of
// devices included. Pure; storage is broker-link.ts's.
import type { BrokerSession } from '../../protocol/bridge.ts';

/** The last connection to the broker under each session name, newest last, and when it was reported. */
export type KnownSessions = readonly (readonly [name: string, connectionId: string, reportedAtMs: number])[];

/** Devices are gone through in the order of their rows, again and again. */
export type Reconciliation = {
  /** What the broker reported before that is in doubt; null if nothing is. */
  forgottenBeforeMs: number | null;
  afterId: number;
};

export const firstReconciliation: Reconciliation = { forgottenBeforeMs: null, afterId: 0 };

const maxSessions = 8;

/** undefined for a connection that was noted before: a bridge reports it again after its link was lost. */
export function noteSession(
  known: KnownSessions,
  { name, connectionId, isPresent, readUntilMsAgo }: BrokerSession,
  nowMs: number,
): { sessions: KnownSessions; forgottenBeforeMs: number | undefined } | undefined {
  const before = known.find(([knownName]) => knownName === name);
  if (before?.[1] === connectionId) return undefined;
  const others = known.filter((session) => session !== before).slice(1 - maxSessions);
  const isForgotten = before !== undefined && !isPresent;
  return {
    sessions: [...others, [name, connectionId, nowMs]],
    forgottenBeforeMs: isForgotten ? Math.max(before[2], nowMs - readUntilMsAgo) : undefined,
  };
}
