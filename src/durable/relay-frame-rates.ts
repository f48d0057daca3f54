// How fast clients of a shard may send frames: a token bucket for each socket, and one for all sockets of a user, a device,
// or of an address before they authenticate. Memory only: a shard that slept was asked for nothing.
import type { Limits } from '../limits.ts';

type Bucket = { tokens: number; atMs: number };
type Rate = { burst: number; perSecond: number };

/** So many buckets of clients are kept before the full ones are dropped. */
const maxBuckets = 10_000;

export class RelayFrameRates<Socket extends object> {
  readonly #ofSocket: Rate;
  readonly #ofClient: Rate;
  readonly #sockets = new WeakMap<Socket, Bucket>();
  /** Not tied to sockets: opening another one does not fill the bucket. */
  readonly #clients = new Map<string, Bucket>();

  constructor(limits: Limits) {
    this.#ofSocket = { burst: limits.relayFrameBurst, perSecond: limits.relayFramesPerSecond };
    this.#ofClient = { burst: limits.relayClientFrameBurst, perSecond: limits.relayClientFramesPerSecond };
  }

  mayBeSentOn(socket: Socket, nowMs: number): boolean {
    const bucket = this.#sockets.get(socket) ?? fullBucket(this.#ofSocket, nowMs);
    this.#sockets.set(socket, bucket);
    return takeToken(bucket, this.#ofSocket, nowMs);
  }

  mayBeSentBy(client: string, nowMs: number): boolean {
    if (this.#clients.size >= maxBuckets) this.#dropFull(nowMs);
    const bucket = this.#clients.get(client) ?? fullBucket(this.#ofClient, nowMs);
    this.#clients.set(client, bucket);
    return takeToken(bucket, this.#ofClient, nowMs);
  }

  #dropFull(nowMs: number): void {
    for (const [client, bucket] of this.#clients) {
      if (refilled(bucket, this.#ofClient, nowMs) >= this.#ofClient.burst) this.#clients.delete(client);
    }
  }
}

function fullBucket({ burst }: Rate, nowMs: number): Bucket {
  return { tokens: burst, atMs: nowMs };
}

function refilled({ tokens, atMs }: Bucket, { burst, perSecond }: Rate, nowMs: number): number {
  return Math.min(burst, tokens + (Math.max(0, nowMs - atMs) / 1000) * perSecond);
}

function takeToken(bucket: Bucket, rate: Rate, nowMs: number): boolean {
  const tokens = refilled(bucket, rate, nowMs);
  const mayPass = tokens >= 1;
  bucket.tokens = mayPass ? tokens - 1 : tokens;
  bucket.atMs = Math.max(bucket.atMs, nowMs);
  return mayPass;
}
