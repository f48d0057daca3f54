// Rules of the bridges' roles: who becomes active, who makes way, who is disconnected, and when to look again. Pure; the
// sockets are broker-link.ts's.

export type BridgeState = {
  /** null before `hello`. */
  role: 'active' | 'standby' | null;
  isBrokerConnected: boolean;
  openedAtMs: number;
  /** When it got its role, or its connection to the broker last changed. */
  changedAtMs: number;
  /** Its last ping; before the first one, the opening of its socket. */
  lastSeenAtMs: number;
};

const helloWithinMs = 5_000;
/** A bridge pings every 5 s. After this much inactivity it is gone, although its socket looks open. */
const inactiveAfterMs = 9_000;
/** An active bridge without a broker makes way for a standby, which may be able to reach the broker. */
const brokerlessForMs = 15_000;

export function lacksHello({ role, openedAtMs }: BridgeState, nowMs: number): boolean {
  return role === null && openedAtMs + helloWithinMs <= nowMs;
}

export function isInactive(bridge: BridgeState, nowMs: number): boolean {
  return inactiveAtMs(bridge) <= nowMs;
}

export function mustMakeWay(bridge: BridgeState, nowMs: number): boolean {
  return brokerlessAtMs(bridge) <= nowMs;
}

type BridgeIdentity = { bridgeId: string | null; spoolId: string; sessionDigest: string };

/**
 * Why a bridge cannot join those that are connected: its id belongs to one with another spool, or it would leave what the
 * broker keeps for the others unread.
 */
export function conflictWith(
  others: (BridgeIdentity & { role: BridgeState['role'] })[],
  { bridgeId, spoolId, sessionDigest }: BridgeIdentity,
): 'id_in_use' | 'other_session' | undefined {
  const joined = others.filter(({ role }) => role !== null);
  if (joined.some((other) => other.bridgeId === bridgeId && other.spoolId !== spoolId)) return 'id_in_use';
  // A bridge that comes back with another client id replaces itself.
  const lasting = joined.filter((other) => other.bridgeId !== bridgeId);
  return lasting.some((other) => other.sessionDigest !== sessionDigest) ? 'other_session' : undefined;
}

/** The standby that has been one for longest. */
export function successorAmong<Bridge extends BridgeState>(bridges: Bridge[], nowMs: number): Bridge | undefined {
  return bridges
    .filter((bridge) => bridge.role === 'standby' && !isInactive(bridge, nowMs))
    .sort((a, b) => a.changedAtMs - b.changedAtMs)[0];
}

/** When one of the rules above may apply next; undefined while none can: a lone active bridge has no successor. */
export function nextCheckAtMs(bridges: BridgeState[]): number | undefined {
  const hasSpare = bridges.some(({ role }) => role === 'standby');
  const times = bridges.flatMap((bridge) => {
    if (bridge.role === null) return bridge.openedAtMs + helloWithinMs;
    if (!hasSpare) return [];
    return Math.min(inactiveAtMs(bridge), brokerlessAtMs(bridge));
  });
  return times.length === 0 ? undefined : Math.min(...times);
}

function inactiveAtMs({ lastSeenAtMs }: BridgeState): number {
  return lastSeenAtMs + inactiveAfterMs;
}

function brokerlessAtMs({ role, isBrokerConnected, changedAtMs }: BridgeState): number {
  return role === 'active' && !isBrokerConnected ? changedAtMs + brokerlessForMs : Infinity;
}
