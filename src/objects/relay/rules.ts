// What the relay knows of a client, and what follows from that alone. Pure; whether a device exists and whose it is, only
// its session knows.
import type { Actor } from '../../domain/access.ts';
import { refuse, type Outcome, type Refusal } from '../../domain/refusal.ts';
import { mayUse, rightsOfDevice } from '../../domain/topic-rights.ts';
import { messagingName, parseFilter, parseFleetFilter, parseTopic, type DeviceIdentity } from '../../domain/topics.ts';
import type { TopicAction } from '../../protocol/mqtt.ts';

export type RelayDevice = { kind: 'device'; generation: number } & DeviceIdentity;
/** `expiresAtMs`: of its token; null for an API key. */
export type RelayUser = { kind: 'user'; expiresAtMs: number | null } & Actor;
export type RelayIdentity = RelayDevice | RelayUser;

/** The attachment of a socket. */
export type RelayClient = {
  socketId: string;
  /** An IPv6 address counts by its /64 network. */
  address: string;
  openedAtMs: number;
  failedAuths: number;
  who: RelayIdentity | null;
  filters: string[];
  /** Closed by this side; the client has not answered yet. */
  isEnded: boolean;
};

const authenticateWithinMs = 10_000;
const maxFilters = { device: 20, user: 200 } as const;

export const notAuthenticated = refuse({ kind: 'credential_refused', credential: 'session', problem: 'missing' });

type Who = RelayClient['who'] | undefined;

/** When the socket is closed unless it authenticates, or sends a fresh token. */
export function deadlineOf({ who, openedAtMs }: RelayClient): number {
  if (who === null) return openedAtMs + authenticateWithinMs;
  return who.kind === 'user' ? (who.expiresAtMs ?? Infinity) : Infinity;
}

export function isSameIdentity(who: Who, other: RelayIdentity): boolean {
  if (who?.kind === 'device' && other.kind === 'device') return messagingName(who) === messagingName(other);
  if (who?.kind !== 'user' || other.kind !== 'user') return false;
  return who.userId === other.userId && who.keyId === other.keyId;
}

export function identityKey(who: RelayIdentity): string {
  return who.kind === 'user' ? `user ${who.userId}` : `device ${messagingName(who)}`;
}

/** A filter over all devices, as far as the API key reaches. */
export function narrowFilter(filter: string, { productKey }: RelayUser): string {
  return productKey === null ? filter : filter.replace(/^\/sys\/[^/]+\//, `/sys/${productKey}/`);
}

/** What a filter is about: one device, or all devices of the user, perhaps of one product. */
export type SubscriptionTarget =
  | { kind: 'device'; who: RelayIdentity; device: DeviceIdentity }
  | { kind: 'fleet'; who: RelayUser; productKey: string | undefined };

/** The target of `filter`: a user's right to the device is still to be checked. */
export function checkSubscription(
  client: RelayClient | undefined,
  filter: string,
): Outcome<{ target: SubscriptionTarget; isNew: boolean }> {
  if (client === undefined || client.who === null) return notAuthenticated;
  const { who, filters } = client;
  const target = targetOf(who, filter);
  if (target === undefined) return refuse({ kind: 'topic_forbidden', action: 'subscribe', topic: filter });
  const isNew = !filters.includes(filter);
  if (isNew && filters.length >= maxFilters[who.kind]) {
    return refuse({ kind: 'limit_reached', limit: { name: 'relaySubscriptions', max: maxFilters[who.kind] } });
  }
  return { ok: true, value: { target, isNew } };
}

function targetOf(who: RelayIdentity, filter: string): SubscriptionTarget | undefined {
  const fleet = who.kind === 'user' ? parseFleetFilter(filter) : undefined;
  if (fleet !== undefined && who.kind === 'user') {
    const { productKey } = fleet;
    const own = who.productKey ?? undefined;
    if (own !== undefined && productKey !== undefined && own !== productKey) return undefined;
    return { kind: 'fleet', who, productKey: own ?? productKey };
  }
  const device = parseFilter(filter)?.device;
  const rights = device && rightsOfDevice(who.kind === 'device' ? who : device);
  if (device === undefined || rights === undefined) return undefined;
  return mayUse(rights, { action: 'subscribe', topic: filter }) ? { kind: 'device', who, device } : undefined;
}

/** Only a client with device credentials publishes, and only on the three topics that the device itself publishes on. */
export function checkPublish(who: Who, topic: string): Outcome<{ device: RelayDevice; action: TopicAction }> {
  if (who === undefined || who === null) return notAuthenticated;
  const action = parseTopic(topic)?.action;
  if (who.kind === 'device' && action !== undefined && mayUse(rightsOfDevice(who), { action: 'publish', topic })) {
    return { ok: true, value: { device: who, action } };
  }
  return refuse({ kind: 'topic_forbidden', action: 'publish', topic });
}

/** Whether somebody else's device exists is not disclosed. */
export function hideForeign(refusal: Refusal, topic: string): Refusal {
  const isForeign = refusal.kind === 'not_found' || refusal.kind === 'not_owner';
  return isForeign ? { kind: 'topic_forbidden', action: 'subscribe', topic } : refusal;
}
