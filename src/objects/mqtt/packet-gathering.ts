// When the packets of one connection are taken: at once if the device waits for each acknowledgement, else together with the
// packets that follow. So a busy device's messages share a write, and a command's acknowledgement shares it with the reply.
// Reads no packet.

/** A device answers a command with a reply and a report, without awaiting the acknowledgement of the first. */
const takenAtOnce = 2;

export class PacketGathering {
  #isPipelining = false;
  /** Packets taken since the device could last read an acknowledgement. */
  #unread = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #held: ReturnType<typeof setTimeout> | null = null;

  get isWaiting(): boolean {
    return this.#timer !== null;
  }

  /** `delivery`: an acknowledgement that nobody waits for. @param take answers how many messages it acknowledged */
  come(first: 'message' | 'delivery' | 'other', gatherMs: number, take: () => number): void {
    if (this.isWaiting) return;
    const isBehindDelivery = this.#held !== null;
    clearTimeout(this.#held);
    this.#held = null;
    if (first === 'delivery' && !isBehindDelivery) {
      this.#held = setTimeout(() => {
        this.#held = null;
        take();
      }, gatherMs);
      return;
    }
    if (first === 'message' && (this.#unread >= takenAtOnce || this.#isPipelining)) {
      this.#timer = setTimeout(() => {
        this.#timer = null;
        this.#isPipelining = take() > 1;
      }, gatherMs);
      return;
    }
    if (take() === 0) return;
    this.#unread += 1;
    // Behind everything that has come already.
    if (this.#unread === 1) setTimeout(() => (this.#unread = 0), 0);
  }
}
