// How handing a message to the broker ended. Literal words travel between objects; what they mean is said here once.
import type { NotPublishedReason } from '../protocol/bridge.ts';

/**
 * What the bridge says, and what only the objects know: `no_bridge` could take it in time, the bridge did not answer
 * (`timeout`), another bridge became active (`bridge_lost`), the link object could not be reached (`unreachable`), the device
 * is connected directly and has too much to acknowledge, or takes no packets of this size (`device_busy`).
 */
export type PublishFailure =
  NotPublishedReason | 'no_bridge' | 'timeout' | 'bridge_lost' | 'unreachable' | 'device_busy';

export type PublishOutcome =
  | { ok: true; id: string; publishedAtMs: number; hasSubscribers: boolean | null; reply?: string | undefined }
  | { ok: false; reason: PublishFailure };

const isCertain = {
  broker_disconnected: true,
  expired: true,
  refused: true,
  standby: true,
  invalid: true,
  no_bridge: true,
  device_busy: true,
  cancelled: false,
  timeout: false,
  bridge_lost: false,
  unreachable: false,
} satisfies Record<PublishFailure, boolean>;

/** Whether it is certain that the broker does not have the message. */
export function isCertainlyUnpublished(reason: PublishFailure): boolean {
  return isCertain[reason];
}
