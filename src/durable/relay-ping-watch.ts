// Finds sockets that send pings without end. The platform answers `{"action":"ping"}` in exactly this spelling without the
// object, so that an idle shard sleeps; it tells the time of a socket's last ping and counts none. Here that time is looked at
// a few times in a row: whoever has sent another one at each look is flooding. Closes nothing.
export class RelayPingWatch<Socket> {
  readonly #pingedAtMs: (socket: Socket) => number | undefined;

  /** @param pingedAtMs when the platform answered the socket's last ping */
  constructor(pingedAtMs: (socket: Socket) => number | undefined) {
    this.#pingedAtMs = pingedAtMs;
  }

  /** @param wait until the next look; @returns those that flood */
  async look(sockets: Iterable<Socket>, nowMs: number, wait: () => Promise<unknown>): Promise<Socket[]> {
    const seenAtMs = new Map<Socket, number>();
    for (const socket of sockets) {
      const atMs = this.#pingedAtMs(socket);
      if (atMs !== undefined && nowMs - atMs < recentMs) seenAtMs.set(socket, atMs);
    }
    for (let count = 0; count < looks && seenAtMs.size > 0; count += 1) {
      await wait();
      for (const [socket, before] of seenAtMs) {
        const atMs = this.#pingedAtMs(socket);
        if (atMs === undefined || atMs === before) seenAtMs.delete(socket);
        else seenAtMs.set(socket, atMs);
      }
    }
    return [...seenAtMs.keys()];
  }
}

/** Who floods has sent his last ping within this. */
const recentMs = 100;
const looks = 20;
