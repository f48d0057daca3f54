// What a broker that cannot ask must be told of a device, in no broker's terms. One implementation a broker, each in
// its own file.
import type { DeviceIdentity } from '../domain/topics.ts';

/**
 * Each call may come again after it succeeded, and leads to the same end.
 * @throws BrokerAwayError where the broker cannot be reached or refuses this service; Error where it refuses this call
 */
export type BrokerProvisioner = {
  /** Lets the device in with this password, in the place of any other, and to its own topics. */
  upsertCredential: (device: DeviceIdentity, password: string) => Promise<void>;
  /** Ends its sessions and keeps it out; `block` keeps its credential for `unblock`, `remove` forgets the device. */
  revoke: (device: DeviceIdentity, how: 'block' | 'remove') => Promise<void>;
  unblock: (device: DeviceIdentity) => Promise<void>;
  /** Ends its sessions; it may come back. */
  disconnect: (device: DeviceIdentity) => Promise<void>;
};

/** The broker, or the way to it, is not there: nothing else need be tried before it is. */
export class BrokerAwayError extends Error {
  override readonly name = 'BrokerAwayError';
}
