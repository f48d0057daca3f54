// When the packets of one connection are taken: at once where the device waits for each acknowledgement; together with those
// that follow where it does not, so that a busy device's messages share a write. Reads no packet.

/** A device answers a command with a reply and a report, without awaiting the acknowledgement of the first. */
const takenAtOnce = 2;

export class PacketGathering {
  #isPipelining = false;
  /** So many have come since the device could read an acknowledgement. */
  #unread = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;

  /** Whatever comes is taken when the time has passed. */
  get isWaiting(): boolean {
    return this.#timer !== null;
  }

  /**
   * @param isMessage the packet that has come is one that the device may wait for an answer to
   * @param take takes everything that has come, and answers how many messages it acknowledged
   */
  come(isMessage: boolean, gatherMs: number, take: () => number): void {
    if (this.isWaiting) return;
    if (isMessage && (this.#unread >= takenAtOnce || this.#isPipelining)) {
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
