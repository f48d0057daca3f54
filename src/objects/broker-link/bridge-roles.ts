// Rules of the bridges' roles: who becomes active, who makes way, who is disconnected, and when to look again. Pure; the
// sockets are broker-link.ts's.

export type BridgeState = {
  /** null before `hello`. */
  role: 'active' | 'standby' | null;
  isBrokerConnected: boolean;
  openedAtMs: number;
  /** When it got its role, or its connection to the broker last changed. */
  changedAtMs: number;
  /** Its last ping, or its dial-in. */
  lastSeenAtMs: number;
  /** For how many shares it is active, this one included. */
  load?: number;
  /** Until when it is given no share that another one serves: it had no broker the last time. */
  avoidedUntilMs?: number;
  /** It hands over this share, and has until then; null for the others. */
  leavingUntilMs?: number | null;
};

const helloWithinMs = 5_000;
/** A bridge pings every 5 s. After this much inactivity it is gone, although its socket looks open. */
const inactiveAfterMs = 9_000;
/** An active bridge without a broker makes way for a standby, which may be able to reach the broker. */
const brokerlessForMs = 15_000;
/** A bridge has to be there for so long before it is given a share that another one serves: it might come and go. */
const balancedAfterMs = 5_000;
/** A bridge that had no broker when it was given a share is left alone for so long. */
export const avoidedForMs = 300_000;
/** A bridge that is to hand over its share must have left within this time; then the next one takes it. */
export const releasedWithinMs = 8_000;

export function lacksHello({ role, openedAtMs }: BridgeState, nowMs: number): boolean {
  return role === null && openedAtMs + helloWithinMs <= nowMs;
}

export function isInactive(bridge: BridgeState, nowMs: number): boolean {
  return inactiveAtMs(bridge) <= nowMs;
}

export function mustMakeWay(bridge: BridgeState, nowMs: number): boolean {
  return brokerlessAtMs(bridge) <= nowMs;
}

type BridgeIdentity = {
  bridgeId: string | null;
  spoolId?: string | undefined;
  sessionDigest?: string | undefined;
};

/**
 * Why a bridge cannot join those that are connected: its id belongs to one with another spool, or it would leave what the
 * broker keeps for the others unread. What a bridge does not say is in conflict with nothing.
 */
export function conflictWith(
  others: (BridgeIdentity & { role: BridgeState['role'] })[],
  { bridgeId, spoolId, sessionDigest }: BridgeIdentity,
): 'idInUse' | 'otherSession' | undefined {
  const differ = (one?: string, other?: string) => one !== undefined && other !== undefined && one !== other;
  const joined = others.filter(({ role }) => role !== null);
  if (joined.some((other) => other.bridgeId === bridgeId && differ(other.spoolId, spoolId))) return 'idInUse';
  // One that comes again with another client id replaces itself.
  const lasting = joined.filter((other) => other.bridgeId !== bridgeId);
  return lasting.some((other) => differ(other.sessionDigest, sessionDigest)) ? 'otherSession' : undefined;
}

/** Of the standbys with the fewest shares the one that has waited longest. */
export function successorAmong<Bridge extends BridgeState>(bridges: Bridge[], nowMs: number): Bridge | undefined {
  return bridges
    .filter((bridge) => bridge.role === 'standby' && !isInactive(bridge, nowMs))
    .sort((one, other) => loadOf(one) - loadOf(other) || one.changedAtMs - other.changedAtMs)[0];
}

/**
 * The standby that the active bridge of this share has to hand it over to: one that has two shares less, and is fit. A
 * bridge gives up the last of its shares first, so that the links of its shares, which do not know of each other, do not
 * all do so at once.
 */
export function lighterThan<Bridge extends BridgeState>(
  active: BridgeState & { activeShares: readonly number[] },
  share: number,
  bridges: Bridge[],
  nowMs: number,
): Bridge | undefined {
  if (share !== Math.max(...active.activeShares)) return undefined;
  const lighter = bridges.filter((one) => loadOf(one) + 2 <= loadOf(active) && balancedAtMs(one) <= nowMs);
  return successorAmong(lighter, nowMs);
}

/** When one of the rules above may apply next; undefined while none can: a lone active bridge has no successor. */
export function nextCheckAtMs(bridges: BridgeState[], nowMs: number): number | undefined {
  const hasStandby = bridges.some(({ role }) => role === 'standby');
  const heaviest = bridges.find(({ role }) => role === 'active');
  const times = bridges.flatMap((bridge) => {
    if (bridge.role === null) return bridge.openedAtMs + helloWithinMs;
    if (!hasStandby) return [];
    const isLighter = bridge.role === 'standby' && loadOf(bridge) + 2 <= loadOf(heaviest);
    // Later, only what bridges say of their shares can change it.
    const lighterAtMs = isLighter && balancedAtMs(bridge) > nowMs ? balancedAtMs(bridge) : Infinity;
    return Math.min(inactiveAtMs(bridge), brokerlessAtMs(bridge), lighterAtMs, bridge.leavingUntilMs ?? Infinity);
  });
  return times.length === 0 ? undefined : Math.min(...times);
}

function loadOf(bridge: BridgeState | undefined): number {
  return bridge?.load ?? 0;
}

function balancedAtMs({ changedAtMs, avoidedUntilMs = 0 }: BridgeState): number {
  return Math.max(changedAtMs + balancedAfterMs, avoidedUntilMs);
}

function inactiveAtMs({ lastSeenAtMs }: BridgeState): number {
  return lastSeenAtMs + inactiveAfterMs;
}

function brokerlessAtMs({ role, isBrokerConnected, changedAtMs }: BridgeState): number {
  return role === 'active' && !isBrokerConnected ? changedAtMs + brokerlessForMs : Infinity;
}
