// Finds sockets that send pings without end. The platform answers `{"action":"ping"}` in exactly this spelling without the
// object, so that an idle shard sleeps; it tells the time of a socket's last ping and counts none. Here that time is looked at
// a few times in a row: whoever has sent another one between many of the looks is flooding. Closes nothing.
export class RelayPingWatch<Socket> {
  readonly #pingedAtMs: (socket: Socket) => number | undefined;

  /** @param pingedAtMs when the platform answered the socket's last ping */
  constructor(pingedAtMs: (socket: Socket) => number | undefined) {
    this.#pingedAtMs = pingedAtMs;
  }

  /** @param wait until the next look; @returns those that flood */
  async look(sockets: Iterable<Socket>, nowMs: number, wait: () => Promise<unknown>): Promise<Socket[]> {
    const seen = new Map<Socket, { atMs: number; pings: number }>();
    for (const socket of sockets) {
      const atMs = this.#pingedAtMs(socket);
      if (atMs !== undefined && nowMs - atMs < recentMs) seen.set(socket, { atMs, pings: 0 });
    }
    for (let count = 1; count <= looks && seen.size > 0; count += 1) {
      await wait();
      for (const [socket, before] of seen) {
        const atMs = this.#pingedAtMs(socket) ?? before.atMs;
        if (atMs !== before.atMs) seen.set(socket, { atMs, pings: before.pings + 1 });
        else if (count >= calmLooks && before.pings === 0) seen.delete(socket);
      }
    }
    return [...seen].filter(([, { pings }]) => pings >= tooManyPings).map(([socket]) => socket);
  }
}

/** Who floods has sent his last ping within this. */
const recentMs = 100;
const looks = 30;
/** Who sends no other one in so many looks is not looked at any longer. */
const calmLooks = 5;
/** Of the looks: a client that waits for answers, or a busy machine, has gaps. */
const tooManyPings = 8;
