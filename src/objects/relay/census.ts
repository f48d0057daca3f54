// Counts what a shard holds: sockets per client address, user and device, and the bytes that each has been sent and has
// not shown to have read. The platform tells nobody how much waits for a slow reader, so a socket is asked: a ping with
// an id goes out behind the pushes, and its pong says that all of them were read. Memory only: an object with bytes
// waiting is not evicted, so that the counts of bytes may start again at nothing after a sleep. Closes and sends nothing.
import type { Limit, RelaySocketLimit } from '../../domain/refusal.ts';
import type { Limits } from '../../limits.ts';

/** A socket is asked again after so many bytes. */
export const bytesPerReadingCheck = 65_536;
/** Whoever answers these checks never has more unread for long: pressure by others does not close it. */
export const bytesOfReaders = 2 * bytesPerReadingCheck;

type Member = {
  address: string;
  /** User or device; undefined before authentication and after the end. */
  identity: string | undefined;
  hasAuthenticated: boolean;
  isEnded: boolean;
  unreadBytes: number;
  /** The last ping without a pong, and how much it vouches for. */
  check: { id: string; bytes: number } | undefined;
};

type AddressTally = { sockets: number; unauthenticated: number; unreadBytes: number };

export class RelayCensus<Socket> {
  readonly #limits: Limits;
  /** Until the connection is gone: a client that ignores a close keeps it, and what was written to it. */
  readonly #members = new Map<Socket, Member>();
  readonly #addresses = new Map<string, AddressTally>();
  readonly #identities = new Map<string, Set<Socket>>();
  /** Open ones, oldest first. */
  readonly #unauthenticated = new Set<Socket>();
  #unreadBytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** The limit that one more socket of the address would exceed. */
  limitReachedBy(address: string): Limit | undefined {
    const { sockets, unauthenticated } = this.#addresses.get(address) ?? { sockets: 0, unauthenticated: 0 };
    const counts: Record<RelaySocketLimit, number> = {
      relayUnauthenticatedPerAddress: unauthenticated,
      relaySocketsPerAddress: sockets,
      relaySocketsPerShard: this.#members.size,
    };
    for (const name of Object.keys(counts) as RelaySocketLimit[]) {
      if (counts[name] >= this.#limits[name]) return { name, max: this.#limits[name] };
    }
    return undefined;
  }

  /** @returns sockets that have to go, because too many have not authenticated: the oldest had the most time for it */
  open(socket: Socket, address: string): Socket[] {
    const { relayUnauthenticatedPerShard: max } = this.#limits;
    this.#members.set(socket, {
      ...{ address, identity: undefined, hasAuthenticated: false, isEnded: false },
      ...{ unreadBytes: 0, check: undefined },
    });
    const tally = this.#addresses.get(address) ?? { sockets: 0, unauthenticated: 0, unreadBytes: 0 };
    this.#addresses.set(address, tally);
    tally.sockets += 1;
    tally.unauthenticated += 1;
    this.#unauthenticated.add(socket);
    return surplusOf(this.#unauthenticated, max);
  }

  /** @returns the oldest sockets of the same identity where there are more than `max` */
  signIn(socket: Socket, identity: string, max: number): Socket[] {
    const member = this.#members.get(socket);
    if (member === undefined || member.isEnded || member.identity === identity) return [];
    if (!member.hasAuthenticated) this.#tallyOf(member).unauthenticated -= 1;
    this.#unauthenticated.delete(socket);
    this.#leaveIdentity(socket, member);
    member.identity = identity;
    member.hasAuthenticated = true;
    const sockets = this.#identities.get(identity) ?? new Set();
    this.#identities.set(identity, sockets.add(socket));
    return surplusOf(sockets, max);
  }

  /** Closed by this side. It still counts at its address, and what it has not read is still held. */
  end(socket: Socket): void {
    const member = this.#members.get(socket);
    if (member === undefined) return;
    member.isEnded = true;
    this.#unauthenticated.delete(socket);
    this.#leaveIdentity(socket, member);
  }

  /** The connection is gone. */
  remove(socket: Socket): void {
    const member = this.#members.get(socket);
    if (member === undefined) return;
    this.end(socket);
    this.#members.delete(socket);
    this.#addUnread(member, -member.unreadBytes);
    const tally = this.#tallyOf(member);
    tally.sockets -= 1;
    if (!member.hasAuthenticated) tally.unauthenticated -= 1;
    if (tally.sockets === 0) this.#addresses.delete(member.address);
  }

  /** Counts what is about to be sent. False, and nothing counted, where the client has too much to read already. */
  mayReceive(socket: Socket, bytes: number): boolean {
    const member = this.#members.get(socket);
    if (member === undefined || member.isEnded) return false;
    const { relayUnreadBytesPerSocket, relayUnreadBytesPerAddress, relayUnreadBytesPerShard } = this.#limits;
    const isFull = member.unreadBytes > 0 && member.unreadBytes + bytes > relayUnreadBytesPerSocket;
    const isCrowded =
      this.#tallyOf(member).unreadBytes + bytes > relayUnreadBytesPerAddress ||
      this.#unreadBytes + bytes > relayUnreadBytesPerShard;
    if (isFull || (isCrowded && member.unreadBytes > bytesOfReaders)) return false;
    this.#addUnread(member, bytes);
    return true;
  }

  /** The id of a ping that is to be sent now, behind everything else; undefined where it is not yet time. */
  startReadingCheck(socket: Socket): string | undefined {
    const member = this.#members.get(socket);
    if (member === undefined || member.check !== undefined || member.unreadBytes < bytesPerReadingCheck)
      return undefined;
    // A client must not know it before it has read it.
    member.check = { id: crypto.randomUUID(), bytes: member.unreadBytes };
    return member.check.id;
  }

  isAwaitingPong(socket: Socket): boolean {
    return this.#members.get(socket)?.check !== undefined;
  }

  /** False for an id that was not asked for. */
  confirmReading(socket: Socket, id: string): boolean {
    const member = this.#members.get(socket);
    if (member?.check?.id !== id) return false;
    this.#addUnread(member, -member.check.bytes);
    member.check = undefined;
    return true;
  }

  #addUnread(member: Member, bytes: number): void {
    member.unreadBytes += bytes;
    this.#tallyOf(member).unreadBytes += bytes;
    this.#unreadBytes += bytes;
  }

  #tallyOf({ address }: Member): AddressTally {
    const tally = this.#addresses.get(address);
    if (tally === undefined) throw new Error('an address without a tally has a socket');
    return tally;
  }

  #leaveIdentity(socket: Socket, member: Member): void {
    if (member.identity === undefined) return;
    const sockets = this.#identities.get(member.identity);
    sockets?.delete(socket);
    if (sockets?.size === 0) this.#identities.delete(member.identity);
    member.identity = undefined;
  }
}

/** Those that came first. */
function surplusOf<Socket>(sockets: ReadonlySet<Socket>, max: number): Socket[] {
  return sockets.size > max ? [...sockets].slice(0, sockets.size - max) : [];
}
