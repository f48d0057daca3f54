// How many connections may be open, and how many of them that the Worker has not answered yet: in all and by address (an IPv6
// address by its /64). Counts and closes; knows nothing of sockets.
import { networkOf } from '../../src/domain/client-network.ts';

export type AdmissionLimits = Record<
  'connections' | 'connectionsPerAddress' | 'unauthenticated' | 'unauthenticatedPerAddress',
  number
>;
export type Overrun = 'connections' | 'connections_per_address' | 'unauthenticated_per_address';

/** A share of all places is kept for addresses with few connections: addresses with many cannot fill the gateway. */
const keptShare = 0.1;
const fewConnections = 10;

export type Place = {
  /** The Worker has answered: the connection counts no longer as unauthenticated. */
  authenticate: () => void;
  /** Once, at the end of the connection. */
  leave: () => void;
};

export function createAdmission(limits: AdmissionLimits) {
  let openCount = 0;
  /** Unauthenticated connections with their closing, in the order of their opening, which tells the oldest one. */
  const waiting = new Map<Place, () => void>();
  const byNetwork = new Map<string, { open: number; unauthenticated: number }>();
  return { enter, openCount: () => openCount, unauthenticatedCount: () => waiting.size };

  /**
   * A place for a new connection, or the limit that refuses it. If all places of unauthenticated connections are in use,
   * `displace` of the oldest is called, so that many addresses with mute connections keep no device out.
   */
  function enter(address: string, displace: () => void): Place | Overrun {
    const { connections, connectionsPerAddress, unauthenticated, unauthenticatedPerAddress } = limits;
    const network = networkOf(address);
    const counts = byNetwork.get(network) ?? { open: 0, unauthenticated: 0 };
    const kept = counts.open < fewConnections ? 0 : Math.floor(connections * keptShare);
    if (openCount >= connections - kept) return 'connections';
    if (counts.open >= connectionsPerAddress) return 'connections_per_address';
    if (counts.unauthenticated >= unauthenticatedPerAddress) return 'unauthenticated_per_address';
    if (waiting.size >= unauthenticated) {
      const [[oldest, displaceOldest] = []] = waiting;
      oldest?.authenticate();
      displaceOldest?.();
    }

    const authenticate = (): void => {
      if (waiting.delete(place)) counts.unauthenticated -= 1;
    };
    const leave = (): void => {
      authenticate();
      openCount -= 1;
      counts.open -= 1;
      if (counts.open === 0) byNetwork.delete(network);
    };
    const place: Place = { authenticate, leave };
    openCount += 1;
    waiting.set(place, displace);
    counts.open += 1;
    counts.unauthenticated += 1;
    byNetwork.set(network, counts);
    return place;
  }
}
