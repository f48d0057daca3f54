// When the packets of one connection are taken: at once where the device waits for each acknowledgement; together with those
// that follow where it does not, so that a busy device's messages share a write, and so do a command's acknowledgement and the
// reply behind it. Reads no packet.

/** A device answers a command with a reply and a report, without awaiting the acknowledgement of the first. */
const takenAtOnce = 2;

export class PacketGathering {
  #isPipelining = false;
  /** So many have come since the device could read an acknowledgement. */
  #unread = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #held: ReturnType<typeof setTimeout> | null = null;

  /** Whatever comes is taken when the time has passed. */
  get isWaiting(): boolean {
    return this.#timer !== null;
  }

  /**
   * @param first of what has come: `message`, which the device may wait for an answer to; `delivery`, an acknowledgement that
   * nobody waits for; or any other packet
   * @param take takes everything that has come, and answers how many messages it acknowledged
   */
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
