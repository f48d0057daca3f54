// How fast clients of a shard may send frames: a token bucket for each socket, and one for all sockets of a user, a device,
// or of an address before they authenticate. Memory only: a shard that slept was asked for nothing.
import { Buckets, fullBucket, takeToken, type Bucket, type Rate } from '../../domain/token-bucket.ts';
import type { Limits } from '../../limits.ts';

/** So many buckets of clients are kept before the full ones are dropped. */
const maxBuckets = 10_000;

export class RelayFrameRates<Socket extends object> {
  readonly #ofSocket: Rate;
  readonly #sockets = new WeakMap<Socket, Bucket>();
  /** Not tied to sockets: opening another one does not fill the bucket. */
  readonly #clients: Buckets;

  constructor(limits: Limits) {
    this.#ofSocket = { burst: limits.relayFrameBurst, perSecond: limits.relayFramesPerSecond };
    const ofClient = { burst: limits.relayClientFrameBurst, perSecond: limits.relayClientFramesPerSecond };
    this.#clients = new Buckets(ofClient, maxBuckets);
  }

  mayBeSentOn(socket: Socket, nowMs: number): boolean {
    const bucket = this.#sockets.get(socket) ?? fullBucket(this.#ofSocket, nowMs);
    this.#sockets.set(socket, bucket);
    return takeToken(bucket, this.#ofSocket, nowMs);
  }

  mayBeSentBy(client: string, nowMs: number): boolean {
    return this.#clients.take(client, nowMs);
  }
}
