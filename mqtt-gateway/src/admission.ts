// How many connections may be open, and how many of them that the Worker has not answered yet: in all and by address.
// Counts and closes; knows nothing of sockets.
import { networkOf } from '../../src/domain/client-network.ts';

export type AdmissionLimits = { connections: number; unauthenticated: number; unauthenticatedPerAddress: number };
export type Overrun = 'connections' | 'unauthenticated_per_address';

export type Place = {
  /** The Worker has answered: the connection counts no longer as unauthenticated. */
  authenticate: () => void;
  /** May be called more than once. */
  leave: () => void;
};

export class Admission {
  openCount = 0;
  readonly #limits: AdmissionLimits;
  /** Their closing, in the order of their opening, which tells the oldest one. */
  readonly #unauthenticated = new Map<Place, () => void>();
  readonly #byNetwork = new Map<string, number>();

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  get unauthenticatedCount(): number {
    return this.#unauthenticated.size;
  }

  /**
   * A place for a new connection, or the limit that refuses it. If all places of unauthenticated connections are in use,
   * `displace` of the oldest is called, so that many addresses with mute connections keep no device out.
   */
  enter(address: string, displace: () => void): Place | Overrun {
    const { connections, unauthenticated, unauthenticatedPerAddress } = this.#limits;
    const network = networkOf(address);
    const sameNetwork = this.#byNetwork.get(network) ?? 0;
    if (this.openCount >= connections) return 'connections';
    if (sameNetwork >= unauthenticatedPerAddress) return 'unauthenticated_per_address';
    if (this.#unauthenticated.size >= unauthenticated) {
      const [[oldest, displaceOldest] = []] = this.#unauthenticated;
      oldest?.authenticate();
      displaceOldest?.();
    }

    let isOpen = true;
    const authenticate = (): void => {
      if (!this.#unauthenticated.delete(place)) return;
      const left = (this.#byNetwork.get(network) ?? 0) - 1;
      if (left > 0) this.#byNetwork.set(network, left);
      else this.#byNetwork.delete(network);
    };
    const leave = (): void => {
      authenticate();
      if (isOpen) this.openCount -= 1;
      isOpen = false;
    };
    const place: Place = { authenticate, leave };
    this.openCount += 1;
    this.#unauthenticated.set(place, displace);
    this.#byNetwork.set(network, sameNetwork + 1);
    return place;
  }
}
