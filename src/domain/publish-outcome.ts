// How handing a message to the broker ended. Literal words travel between objects; what they mean is said here once.
import type { NotPublishedReason } from '../protocol/bridge.ts';

/**
 * What the bridge says, and what only the objects know: `no_bridge` could take it in time, the bridge did not answer
 * (`timeout`), another bridge became active (`bridge_lost`), the link object could not be reached (`unreachable`), the device
 * is connected at the edge and has too much to acknowledge, or takes no packets of this size (`device_busy`).
 */
export type PublishFailure =
  NotPublishedReason | 'no_bridge' | 'timeout' | 'bridge_lost' | 'unreachable' | 'device_busy';

export type PublishOutcome =
  | { ok: true; id: string; publishedAtMs: number; hasSubscribers: boolean | null; reply?: string | undefined }
  | { ok: false; reason: PublishFailure };

/** Whether it is certain that the broker does not have the message. */
export function isCertainlyUnpublished(reason: PublishFailure): boolean {
  switch (reason) {
    case 'timeout':
    case 'bridge_lost':
    case 'cancelled':
    case 'unreachable':
      return false;
    case 'broker_disconnected':
    case 'expired':
    case 'refused':
    case 'standby':
    case 'invalid':
    case 'no_bridge':
    case 'device_busy':
      return true;
  }
}
