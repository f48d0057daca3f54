// What goes to sockets that were opened with API keys: it waits until the key was read within the last second, so that one that
// was deleted gets nothing more, even where this shard was not told. One read serves all that wait; a busy socket waits for none.
import type { RelayKeys } from './keys.ts';

/** A key in use is read again before what was read has lost its worth. */
const renewAfterMs = 500;

type Frames = { keyId: string; frames: string[]; bytes: number };

type Shard = {
  end: (keyId: string) => void;
  send: (socket: WebSocket, frames: string[], bytes: number) => void;
  inBackground: (work: Promise<void>) => void;
};

export class RelayKeyWaits {
  readonly #keys: RelayKeys;
  readonly #shard: Shard;
  readonly #waiting = new Map<WebSocket, Frames[]>();
  /** Keys that are being read, and those of the next read. */
  #reading: ReadonlySet<string> = new Set();
  #wanted = new Set<string>();
  #isAtWork = false;

  constructor(keys: RelayKeys, shard: Shard) {
    this.#keys = keys;
    this.#shard = shard;
  }

  /** False where they are kept, to be sent by `send` if the key still counts. */
  maySend(socket: WebSocket, keyId: string, frames: string[], bytes: number): boolean {
    const ageMs = this.#keys.ageOf(keyId);
    if (ageMs === undefined || ageMs >= renewAfterMs) this.#read(keyId);
    const waiting = this.#waiting.get(socket);
    if (ageMs !== undefined && waiting === undefined) return true;
    if (waiting === undefined) this.#waiting.set(socket, [{ keyId, frames, bytes }]);
    else waiting.push({ keyId, frames, bytes });
    return false;
  }

  forget(socket: WebSocket): void {
    this.#waiting.delete(socket);
  }

  #read(keyId: string): void {
    if (!this.#reading.has(keyId)) this.#wanted.add(keyId);
    if (this.#isAtWork) return;
    this.#isAtWork = true;
    this.#shard.inBackground(this.#readWanted());
  }

  async #readWanted(): Promise<void> {
    try {
      // With all keys of the push that is under way.
      await Promise.resolve();
      while (this.#wanted.size > 0) {
        const read = this.#wanted;
        this.#reading = read;
        this.#wanted = new Set();
        const ended = new Set(await this.#keys.findEnded(read));
        this.#reading = new Set();
        for (const keyId of ended) this.#shard.end(keyId);
        this.#sendWaiting(new Set([...read].filter((keyId) => !ended.has(keyId))));
      }
    } finally {
      this.#reading = new Set();
      this.#isAtWork = false;
    }
  }

  /** What waits for other keys is kept; what waits for one that has ended is dropped, whoever has the socket now. */
  #sendWaiting(counting: ReadonlySet<string>): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const [socket, kept] of waiting) {
      const left = kept.filter(({ keyId }) => this.#wanted.has(keyId));
      if (left.length > 0) this.#waiting.set(socket, left);
      for (const { keyId, frames, bytes } of kept) if (counting.has(keyId)) this.#shard.send(socket, frames, bytes);
    }
  }
}
