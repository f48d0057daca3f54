// What a shard sends to its sockets: in portions, between which everything else has its turn, and no more than a client reads.
// The platform does not tell how much a slow reader has not read. So a ping with an id goes out behind the pushes, and its
// pong says that all of them were read. In memory: an object with bytes to send is not evicted. It must not know any rights.
import { parseJson } from '../../domain/json.ts';
import type { Limits } from '../../limits.ts';
import { relayReadingPongSchema, type RelayReadingCheck } from '../../protocol/relay.ts';
import type { RelayRun } from '../calls/push-to-relays.ts';

/** A report to a thousand sockets leaves at once. With larger portions the platform takes longer for each frame. */
export const portionBytes = 262_144;
/** A ping goes out after so many bytes without one. */
export const bytesPerReadingCheck = 65_536;
/** A client that answers the checks never has more unread for long. What others do not read never closes its socket. */
const bytesOfReaders = 2 * bytesPerReadingCheck;
/** Half of the memory of a shard, which has 128 MiB for everything. */
const maxUnreadBytes = 64 * 1024 * 1024;

export type UnreadLimits = { perSocket: number; perAddress: number; perShard: number };

export function unreadLimits({ relayUnreadBytesPerSocket: perSocket }: Limits): UnreadLimits {
  const sockets = (count: number) => Math.min(count * perSocket, maxUnreadBytes);
  return { perSocket, perAddress: sockets(4), perShard: sockets(12) };
}

type OutboxShard<Socket> = {
  send: (socket: Socket, frame: string) => void;
  /** Whether the socket may still have what has waited for it. */
  mayHave: (socket: Socket, run: RelayRun) => boolean;
  endUnread: (socket: Socket) => void;
  /** Resolves when the platform has written what it was given before, or waits for clients that do not read. */
  nextTurn: () => Promise<void>;
  inBackground: (work: Promise<void>) => void;
};

/** Without `run` it is an answer to the client. */
export type Write = { frames: string[]; bytes: number; run?: RelayRun };

type Member = {
  address: string;
  isEnded: boolean;
  waiting: Write[];
  /** Bytes that wait, and that were sent and not shown to be read. */
  bytes: number;
  sentBytes: number;
  /** The last ping without a pong, and how much it vouches for. */
  check: { id: string; bytes: number } | undefined;
};

export class Outbox<Socket> {
  readonly #limits: UnreadLimits;
  readonly #shard: OutboxShard<Socket>;
  /** Until the connection is gone: a client that ignores a close keeps it, and what was sent to it. */
  readonly #members = new Map<Socket, Member>();
  readonly #bytesByAddress = new Map<string, number>();
  #bytes = 0;
  /** Sockets with waiting writes, the next one first. */
  readonly #queue = new Set<Socket>();
  #sending: Promise<void> | undefined;
  #bytesLeft = 0;

  constructor(limits: UnreadLimits, shard: OutboxShard<Socket>) {
    this.#limits = limits;
    this.#shard = shard;
  }

  open(socket: Socket, address: string): void {
    const none = { waiting: [], bytes: 0, sentBytes: 0, check: undefined };
    this.#members.set(socket, { address, isEnded: false, ...none });
  }

  /** Closed by this side. What the client has not read is still held. */
  end(socket: Socket): void {
    const member = this.#members.get(socket);
    if (member === undefined) return;
    member.isEnded = true;
    this.#drop(socket, member, () => true);
  }

  remove(socket: Socket): void {
    this.end(socket);
    const member = this.#members.get(socket);
    if (member !== undefined) this.#count(member, -member.bytes);
    this.#members.delete(socket);
  }

  /** A push begins: its first portion goes at once, unless others wait. */
  beginPush(): void {
    this.#bytesLeft = portionBytes;
  }

  /** Resolves when nothing waits any more: all was sent or dropped. Undefined if nothing does. */
  get written(): Promise<void> | undefined {
    return this.#sending;
  }

  push(socket: Socket, write: Write): void {
    const goesNow = this.#queue.size === 0 && this.#bytesLeft > 0;
    if (goesNow) this.#bytesLeft -= write.bytes;
    this.#add(socket, write, goesNow);
  }

  /** At once, or behind what waits for the socket. */
  answer(socket: Socket, frames: string[]): void {
    this.#add(socket, { frames, bytes: bytesOf(frames) }, !this.#queue.has(socket));
  }

  /** What waits of a device, for sockets that may not have it any more. */
  drop(deviceId: string, isMeant: (socket: Socket) => boolean): void {
    for (const socket of [...this.#queue].filter(isMeant)) {
      const member = this.#members.get(socket);
      if (member !== undefined) this.#drop(socket, member, ({ run }) => run?.deviceId === deviceId);
    }
  }

  /** True if the frame is the pong to a ping of this side. */
  takePong(socket: Socket, frame: string | ArrayBuffer): boolean {
    const member = this.#members.get(socket);
    if (typeof frame !== 'string' || member?.check === undefined) return false;
    const pong = relayReadingPongSchema.safeParse(parseJson(frame));
    if (!pong.success || pong.data.id !== member.check.id) return false;
    member.sentBytes -= member.check.bytes;
    this.#count(member, -member.check.bytes);
    member.check = undefined;
    // More may have been sent since the ping.
    this.#checkReading(socket, member);
    return true;
  }

  #add(socket: Socket, write: Write, goesNow: boolean): void {
    const member = this.#members.get(socket);
    if (member === undefined || member.isEnded) return;
    if (this.#isTooMuch(member, write.bytes)) {
      this.#shard.endUnread(socket);
      return;
    }
    this.#count(member, write.bytes);
    if (goesNow) {
      this.#send(socket, member, write);
      return;
    }
    member.waiting.push(write);
    this.#queue.add(socket);
    if (this.#sending !== undefined) return;
    this.#sending = this.#sendWaiting();
    this.#shard.inBackground(this.#sending);
  }

  /** A single large write always fits: a client that reads everything has not had the time for it. */
  #isTooMuch(member: Member, bytes: number): boolean {
    const { perSocket, perAddress, perShard } = this.#limits;
    if (member.bytes > 0 && member.bytes + bytes > perSocket) return true;
    const ofAddress = this.#bytesByAddress.get(member.address) ?? 0;
    const isCrowded = ofAddress + bytes > perAddress || this.#bytes + bytes > perShard;
    return isCrowded && member.bytes > bytesOfReaders;
  }

  #send(socket: Socket, member: Member, { frames, bytes }: Write): void {
    member.sentBytes += bytes;
    for (const frame of frames) this.#shard.send(socket, frame);
    this.#checkReading(socket, member);
  }

  #checkReading(socket: Socket, member: Member): void {
    if (member.check !== undefined || member.sentBytes < bytesPerReadingCheck) return;
    // A client must not know the id before it has read it.
    member.check = { id: crypto.randomUUID(), bytes: member.sentBytes };
    const ping: RelayReadingCheck = { action: 'ping', id: member.check.id };
    this.#shard.send(socket, JSON.stringify(ping));
  }

  async #sendWaiting(): Promise<void> {
    try {
      while (this.#queue.size > 0) {
        await this.#shard.nextTurn();
        this.#sendPortion();
      }
    } finally {
      this.#sending = undefined;
    }
  }

  /** Socket by socket, each with all of its own in a row: the platform takes half of the time for that. */
  #sendPortion(): void {
    let bytes = 0;
    for (const socket of this.#queue) {
      const member = this.#members.get(socket);
      while (member !== undefined && bytes < portionBytes) {
        const write = member.waiting.shift();
        if (write === undefined) break;
        bytes += write.bytes;
        if (write.run === undefined || this.#shard.mayHave(socket, write.run)) this.#send(socket, member, write);
        else this.#count(member, -write.bytes);
      }
      this.#queue.delete(socket);
      // Behind the others, which have waited longer.
      if (member !== undefined && member.waiting.length > 0) this.#queue.add(socket);
      if (bytes >= portionBytes) return;
    }
  }

  #drop(socket: Socket, member: Member, isMeant: (write: Write) => boolean): void {
    const { dropped = [], kept = [] } = Object.groupBy(member.waiting, (write) =>
      isMeant(write) ? 'dropped' : 'kept',
    );
    member.waiting = kept;
    for (const { bytes } of dropped) this.#count(member, -bytes);
    if (kept.length === 0) this.#queue.delete(socket);
  }

  #count(member: Member, bytes: number): void {
    member.bytes += bytes;
    this.#bytes += bytes;
    const ofAddress = (this.#bytesByAddress.get(member.address) ?? 0) + bytes;
    if (ofAddress === 0) this.#bytesByAddress.delete(member.address);
    else this.#bytesByAddress.set(member.address, ofAddress);
  }
}

export function bytesOf(frames: readonly string[]): number {
  return frames.reduce((sum, frame) => sum + frame.length, 0);
}
