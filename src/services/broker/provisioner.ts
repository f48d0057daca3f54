// What a broker without a login hook has to know about a device, in broker-independent terms, and how pushing it can
// fail. One implementation per broker, each in its own file.
import type { PublishFailure } from '../../domain/publish-outcome.ts';
import type { DeviceIdentity } from '../../domain/topics.ts';

/**
 * Every operation may be repeated after it succeeded, with the same end state.
 * @throws BrokerCallError, or RefusedError if the link to the bridge cannot be called
 */
export type BrokerProvisioner = {
  /** Creates or replaces the device's credential, with rights to its own topics only, and enables it. */
  upsertCredential: (device: DeviceIdentity, password: string) => Promise<void>;
  enable: (device: DeviceIdentity) => Promise<void>;
  /** Keeps the credential but refuses its logins, and ends the device's sessions. */
  disable: (device: DeviceIdentity) => Promise<void>;
  /** Deletes credential and rights, and ends the device's sessions. */
  delete: (device: DeviceIdentity) => Promise<void>;
  /** The device may log in again at once. */
  endSessions: (device: DeviceIdentity) => Promise<void>;
};

/** `call` names the request, without anything secret. Answers of the broker are not kept: they may repeat the password. */
export type BrokerFailure =
  /** The broker cannot be reached or refuses this service altogether: other devices need not be tried now. */
  | { kind: 'broker_away'; call: string; cause: PublishFailure | { error: string } | { status: number } }
  /** The broker refused this one call; `error` is one of mosquitto's fixed texts. */
  | { kind: 'refused'; call: string; status: number }
  | { kind: 'refused'; call: string; error: string }
  /** The broker's answer does not have the documented shape. */
  | { kind: 'unreadable_answer'; call: string };

export class BrokerCallError extends Error {
  override readonly name = 'BrokerCallError';
  readonly failure: BrokerFailure;

  constructor(failure: BrokerFailure) {
    super(`${failure.call}: ${failure.kind}`);
    this.failure = failure;
  }
}
