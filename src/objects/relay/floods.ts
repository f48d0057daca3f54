// Clients of a shard that send too much: their sockets are ended, and their addresses may not open another one for a while,
// because each new socket would have a burst of its own. Memory only. Counts no frames: that is relay-frame-rates.ts.
import type { Limit } from '../../domain/refusal.ts';
import type { Limits } from '../../limits.ts';
import { RelayPingWatch } from './ping-watch.ts';

/** Between two looks: so often nobody pings. */
const betweenLooksMs = 10;
/** Whoever floods does so soon after he came; later the alarm looks. */
const lookSoonMs = 250;

export type FloodedShard<Socket> = {
  sockets: () => Iterable<Socket>;
  addressOf: (socket: Socket) => string | undefined;
  /** When the platform answered the socket's last ping. */
  pingedAtMs: (socket: Socket) => number | undefined;
  end: (socket: Socket) => void;
};

export class RelayFloods<Socket> {
  readonly #blockSeconds: number;
  readonly #shard: FloodedShard<Socket>;
  readonly #pings: RelayPingWatch<Socket>;
  readonly #blockedUntilMs = new Map<string, number>();
  #isLookingSoon = false;

  constructor({ relayBlockSeconds }: Limits, shard: FloodedShard<Socket>) {
    this.#blockSeconds = relayBlockSeconds;
    this.#shard = shard;
    this.#pings = new RelayPingWatch(shard.pingedAtMs);
  }

  limitReachedBy(address: string, nowMs: number): Limit | undefined {
    const isBlocked = (this.#blockedUntilMs.get(address) ?? 0) > nowMs;
    return isBlocked ? { name: 'relayBlockSeconds', max: this.#blockSeconds } : undefined;
  }

  /** Ends a socket that is open. */
  end(socket: Socket): void {
    const address = this.#shard.addressOf(socket);
    if (address === undefined) return;
    const nowMs = Date.now();
    for (const [other, untilMs] of this.#blockedUntilMs) if (untilMs <= nowMs) this.#blockedUntilMs.delete(other);
    this.#blockedUntilMs.set(address, nowMs + this.#blockSeconds * 1000);
    this.#shard.end(socket);
  }

  async endPingFloods(): Promise<void> {
    const wait = () => scheduler.wait(betweenLooksMs);
    for (const socket of await this.#pings.look(this.#shard.sockets(), Date.now(), wait)) this.end(socket);
  }

  /** For a socket that has just opened or signed in. */
  async endPingFloodsSoon(): Promise<void> {
    if (this.#isLookingSoon) return;
    this.#isLookingSoon = true;
    await scheduler.wait(lookSoonMs);
    this.#isLookingSoon = false;
    await this.endPingFloods();
  }
}
