// Who may open a relay socket, keep it and send on it: sockets by address, user and device, and frames a second. In memory:
// the sockets come back from their attachments, and a shard that slept was sent no frames. It must not close a socket.
import type { Limit, RelaySocketLimit } from '../../domain/refusal.ts';
import { Buckets, fullBucket, takeToken, type Bucket, type Rate } from '../../domain/token-bucket.ts';
import type { Limits } from '../../limits.ts';
import { identityKey, type RelayClient } from './rules.ts';

type Clients<Socket> = Iterable<[Socket, RelayClient]>;

export type SocketLimits = ReturnType<typeof socketLimits>;

/** A client authenticates in a moment, so that far fewer sockets wait for it than are open. */
export function socketLimits(limits: Limits) {
  const { relaySocketsPerAddress, relaySocketsPerShard, relaySocketsPerUser } = limits;
  return {
    relaySocketsPerAddress,
    relaySocketsPerShard,
    relaySocketsPerUser,
    relayUnauthenticatedPerAddress: Math.ceil(relaySocketsPerAddress / 10),
    relayUnauthenticatedPerShard: Math.ceil(relaySocketsPerShard / 5),
    // A device has one connection, and its owner may test with some more.
    relaySocketsPerDevice: 20,
  };
}

/** @param clients of all connections: a closed socket counts until its client answers the close */
export function socketLimitReached(
  clients: Clients<unknown>,
  address: string,
  limits: SocketLimits,
): Limit | undefined {
  const counts = { relayUnauthenticatedPerAddress: 0, relaySocketsPerAddress: 0, relaySocketsPerShard: 0 };
  for (const [, client] of clients) {
    counts.relaySocketsPerShard += 1;
    if (client.address !== address) continue;
    counts.relaySocketsPerAddress += 1;
    if (client.who === null) counts.relayUnauthenticatedPerAddress += 1;
  }
  const name = (Object.keys(counts) as RelaySocketLimit[]).find((limit) => counts[limit] >= limits[limit]);
  return name && { name, max: limits[name] };
}

/**
 * The oldest sockets of a user or device, or of those without authentication, which had the most time for it, if they are too many.
 * @param clients oldest first
 */
export function surplusOf<Socket>(clients: Clients<Socket>, who: RelayClient['who'], limits: SocketLimits): Socket[] {
  const max = { user: limits.relaySocketsPerUser, device: limits.relaySocketsPerDevice };
  const room = who === null ? limits.relayUnauthenticatedPerShard : max[who.kind];
  const keyOf = (client: RelayClient['who']) => client && identityKey(client);
  const own = [...clients].filter(([, client]) => !client.isEnded && keyOf(client.who) === keyOf(who));
  return own.slice(0, Math.max(0, own.length - room)).map(([socket]) => socket);
}

export type FrameLimits = { ofSocket: Rate; ofClient: Rate };

/** Frames are counted only if the rate limits of the platform count as well. */
export function frameLimits({ relayFramesPerSecond }: Limits): FrameLimits {
  return {
    // A client may subscribe to all its filters at once.
    ofSocket: { burst: 300, perSecond: relayFramesPerSecond },
    ofClient: { burst: 2_000, perSecond: 5 * relayFramesPerSecond },
  };
}

const maxBuckets = 10_000;

/** Frames of a socket, and of all sockets of a user, a device, or an address before they authenticate. */
export class FrameRates<Socket extends object> {
  readonly #limits: FrameLimits;
  readonly #sockets = new WeakMap<Socket, Bucket>();
  /** By client, not by socket: another socket does not fill the bucket. */
  readonly #clients: Buckets;

  constructor(limits: FrameLimits) {
    this.#limits = limits;
    this.#clients = new Buckets(limits.ofClient, maxBuckets);
  }

  mayBeSentOn(socket: Socket, nowMs: number): boolean {
    const bucket = this.#sockets.get(socket) ?? fullBucket(this.#limits.ofSocket, nowMs);
    this.#sockets.set(socket, bucket);
    return takeToken(bucket, this.#limits.ofSocket, nowMs);
  }

  mayBeSentBy({ who, address }: RelayClient, nowMs: number, cost = 1): boolean {
    return this.#clients.take(who === null ? `address ${address}` : identityKey(who), nowMs, cost);
  }
}
