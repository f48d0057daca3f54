// How a call of a broker can fail. Answers of the broker are not kept: they may repeat the password.
import type { PublishFailure } from '../../domain/publish-outcome.ts';

/** `call` names the request, without anything secret. */
export type BrokerFailure =
  /** The broker cannot be reached or refuses this service altogether: other devices need not be tried now. */
  | { kind: 'broker_away'; call: string; cause: PublishFailure | { error: string } | { status: number } }
  /** The broker refused this one call; `error` is its status, or one of mosquitto's fixed texts. */
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
