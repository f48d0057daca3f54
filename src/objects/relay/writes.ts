// What goes to the sockets of a shard, in portions, between which everything else has its turn. What waits goes socket by socket,
// each with all of its own in a row: the platform takes half of the time for that. Keeps the order of a socket; knows no rights.
import type { Limits } from '../../limits.ts';
import { bytesOfReaders } from './census.ts';
import type { RelayRun } from '../calls/push-to-relays.ts';

export type Write = {
  frames: string[];
  bytes: number;
  /** What is pushed; absent for answers. */
  run?: RelayRun;
  push?: PushUnderWay;
};

/** A report to a thousand sockets leaves at once. Larger portions take longer, a frame of 200 bytes 10 µs in place of 8. */
export const portionBytes = 262_144;

/** Counts what waits of a push; one more until `noteEnded` says that all of it was given. */
export class PushUnderWay {
  #waiting = 1;
  readonly #written = Promise.withResolvers<undefined>();

  get isWritten(): boolean {
    return this.#waiting === 0;
  }

  get written(): Promise<undefined> {
    return this.#written.promise;
  }

  noteWaiting(): void {
    this.#waiting += 1;
  }

  noteEnded(): void {
    this.#waiting -= 1;
    if (this.#waiting === 0) this.#written.resolve(undefined);
  }
}

type Parts<Socket> = {
  limits: Limits;
  /** `isLate`: it has waited, and what allowed it may have ended. */
  write: (socket: Socket, write: Write, isLate: boolean) => void;
  /** Too much waits for it: has to forget the socket. */
  endFull: (socket: Socket) => void;
  /** Resolves when the platform has written what it was given before, or waits for clients that do not read. */
  nextTurn: () => Promise<void>;
  inBackground: (work: Promise<void>) => void;
};

type Waiting = { writes: Write[]; bytes: number };

export class RelayWrites<Socket> {
  readonly #parts: Parts<Socket>;
  readonly #waiting = new Map<Socket, Waiting>();
  #waitingBytes = 0;
  #isAtWork = false;
  #bytesLeft = 0;

  constructor(parts: Parts<Socket>) {
    this.#parts = parts;
  }

  /** A push begins: its first portion goes at once, unless others wait. */
  begin(): PushUnderWay {
    this.#bytesLeft = portionBytes;
    return new PushUnderWay();
  }

  push(socket: Socket, write: Write): void {
    if (this.#waiting.size === 0 && this.#bytesLeft > 0) {
      this.#bytesLeft -= write.bytes;
      this.#parts.write(socket, write, false);
    } else this.#keep(socket, write);
  }

  /** At once, or behind what waits for the socket. */
  answer(socket: Socket, write: Write): void {
    if (this.#waiting.has(socket)) this.#keep(socket, write);
    else this.#parts.write(socket, write, false);
  }

  forget(socket: Socket): void {
    this.#drop(socket, () => true);
  }

  /** What waits of a device, for sockets that it may not go to any more. */
  drop(deviceId: string, isMeant: (socket: Socket) => boolean): void {
    for (const socket of this.#waiting.keys()) {
      if (isMeant(socket)) this.#drop(socket, ({ run }) => run?.deviceId === deviceId);
    }
  }

  #keep(socket: Socket, write: Write): void {
    const waiting = this.#waiting.get(socket) ?? { writes: [], bytes: 0 };
    const { relayUnreadBytesPerSocket, relayUnreadBytesPerShard } = this.#parts.limits;
    const isFull = waiting.bytes > 0 && waiting.bytes + write.bytes > relayUnreadBytesPerSocket;
    const isCrowded = this.#waitingBytes + write.bytes > relayUnreadBytesPerShard;
    if (isFull || (isCrowded && waiting.bytes > bytesOfReaders)) {
      this.#parts.endFull(socket);
      return;
    }
    this.#waiting.set(socket, waiting);
    waiting.writes.push(write);
    this.#count(waiting, write.bytes);
    write.push?.noteWaiting();
    if (this.#isAtWork) return;
    this.#isAtWork = true;
    this.#parts.inBackground(this.#writeWaiting());
  }

  async #writeWaiting(): Promise<void> {
    try {
      while (this.#waiting.size > 0) {
        await this.#parts.nextTurn();
        this.#writePortion();
      }
    } finally {
      this.#isAtWork = false;
    }
  }

  #writePortion(): void {
    let bytes = 0;
    for (const [socket, waiting] of this.#waiting) {
      while (bytes < portionBytes) {
        const write = waiting.writes.shift();
        // Also where the one before has ended the socket.
        if (write === undefined) break;
        bytes += write.bytes;
        this.#count(waiting, -write.bytes);
        this.#parts.write(socket, write, true);
        write.push?.noteEnded();
      }
      this.#waiting.delete(socket);
      // Behind the others, which have waited longer.
      if (waiting.writes.length > 0) this.#waiting.set(socket, waiting);
      if (bytes >= portionBytes) return;
    }
  }

  #drop(socket: Socket, isMeant: (write: Write) => boolean): void {
    const waiting = this.#waiting.get(socket);
    if (waiting === undefined) return;
    const { dropped = [], kept = [] } = Object.groupBy(waiting.writes, (write) =>
      isMeant(write) ? 'dropped' : 'kept',
    );
    // In place: a portion may be at it.
    waiting.writes.splice(0, waiting.writes.length, ...kept);
    for (const { bytes, push } of dropped) {
      this.#count(waiting, -bytes);
      push?.noteEnded();
    }
    if (kept.length === 0) this.#waiting.delete(socket);
  }

  #count(waiting: Waiting, bytes: number): void {
    waiting.bytes += bytes;
    this.#waitingBytes += bytes;
  }
}
