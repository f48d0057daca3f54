// What the relay knows of a client, and what follows from that alone. Pure; whether a device exists and whose it is, only
// its session knows.
import { z } from 'zod';
import { refuse, type Outcome, type Refusal } from '../domain/refusal.ts';
import { mayUse, rightsOfDevice } from '../domain/topic-rights.ts';
import { messagingName, parseFilter, parseTopic, type DeviceIdentity } from '../domain/topics.ts';
import type { TopicAction } from '../protocol/mqtt.ts';

/** What a socket's attachment holds. */
export const relayClientSchema = z.object({
  socketId: z.string(),
  /** Of the client, an IPv6 one by its /64 network. Sockets of an older version have none. */
  address: z.string().default('unknown'),
  openedAtMs: z.number(),
  failedAuths: z.number(),
  who: z
    .discriminatedUnion('kind', [
      z.object({
        kind: z.literal('device'),
        productKey: z.string(),
        deviceId: z.string(),
        /** Of the credential with which it authenticated. Sockets of an older version have none. */
        generation: z.number().default(-1),
      }),
      z.object({ kind: z.literal('user'), userId: z.number(), expiresAtMs: z.number() }),
    ])
    .nullable(),
  filters: z.array(z.string()),
  /** Closed by this side; the client has not answered yet. */
  isEnded: z.boolean(),
  /** It speaks MQTT, and its device's object has accepted it. */
  isMqtt: z.boolean().default(false),
});

export type RelayClient = z.infer<typeof relayClientSchema>;
export type RelayIdentity = NonNullable<RelayClient['who']>;

const authenticateWithinMs = 10_000;
const maxFilters = { device: 20, user: 200 } as const;

export const notAuthenticated = refuse({ kind: 'credential_refused', credential: 'session', problem: 'missing' });

type Who = RelayClient['who'] | undefined;

/** When the socket is closed unless it authenticates, or sends a fresh token. */
export function deadlineOf({ who, openedAtMs, isMqtt }: RelayClient): number {
  if (isMqtt) return Infinity;
  if (who === null) return openedAtMs + authenticateWithinMs;
  return who.kind === 'user' ? who.expiresAtMs : Infinity;
}

/** The sockets of devices of which it is to be asked now whether their credentials still count: each once in `everyMinutes`. */
export function dueDevices<Socket>(
  clients: Iterable<[Socket, RelayClient]>,
  everyMinutes: number,
  nowMs: number,
): [Socket, Extract<RelayIdentity, { kind: 'device' }>][] {
  const minuteOf = (atMs: number) => Math.floor(atMs / 60_000);
  return [...clients].flatMap(([socket, { who, openedAtMs }]) => {
    const minutes = minuteOf(nowMs) - minuteOf(openedAtMs);
    return who?.kind === 'device' && minutes > 0 && minutes % everyMinutes === 0 ? [[socket, who]] : [];
  });
}

export function isSameIdentity(one: Who, other: RelayIdentity): boolean {
  if (one?.kind === 'device' && other.kind === 'device') return messagingName(one) === messagingName(other);
  return one?.kind === 'user' && other.kind === 'user' && one.userId === other.userId;
}

/** One text for each user and device. */
export function identityKey(who: RelayIdentity): string {
  return who.kind === 'user' ? `user ${who.userId}` : `device ${messagingName(who)}`;
}

/** The device that `filter` stays inside of; for a user its owner is still to be checked. */
export function checkSubscription(
  client: RelayClient | undefined,
  filter: string,
): Outcome<{ who: RelayIdentity; device: DeviceIdentity; isNew: boolean }> {
  if (client === undefined || client.who === null) return notAuthenticated;
  const { who, filters } = client;
  const device = parseFilter(filter)?.device;
  const rights = device && rightsOfDevice(who.kind === 'device' ? who : device);
  if (device === undefined || rights === undefined || !mayUse(rights, { action: 'subscribe', topic: filter })) {
    return refuse({ kind: 'topic_forbidden', action: 'subscribe', topic: filter });
  }
  const isNew = !filters.includes(filter);
  if (isNew && filters.length >= maxFilters[who.kind]) {
    return refuse({ kind: 'limit_reached', limit: { name: 'relay_subscriptions', max: maxFilters[who.kind] } });
  }
  return { ok: true, value: { who, device, isNew } };
}

/** Only a client with device credentials publishes, and only on the three topics that the device itself publishes on. */
export function checkPublish(
  who: Who,
  topic: string,
): Outcome<{ device: Extract<RelayIdentity, { kind: 'device' }>; action: TopicAction }> {
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
