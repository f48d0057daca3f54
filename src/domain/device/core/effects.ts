// What a decision asks the shell to do once its state is written: one closed union. Plain data, so that a test can read
// it. Everything in an effect is of the moment of the decision; the state may have moved on when it runs.
import type { DirectEndReason } from '../../direct/answer-codes.ts';
import type { RevokeCause } from '../../../protocol/relay.ts';
import type { Member } from '../ownership/sharing.ts';
import type { Subscription } from '../messages/subscriptions.ts';

export type Decision = { readonly nowMs: number; readonly effects: Effect[] };

export type Effect =
  | {
      kind: 'push';
      topic: string;
      payload: string;
      subscriptions: readonly Subscription[];
      generations: readonly number[];
    }
  /** Hand a command to the device's open direct session, else to the broker; the outcome comes back as `publication_ended`. */
  | ({ kind: 'publish_command'; commandId: string; messageExpirySeconds: number } & OutboundMessage)
  /** Ends as `announcement_ended`. `isDirect`: the device's last session was direct, so that no broker is asked. */
  | ({ kind: 'publish_announcement'; time: number; isDirect: boolean } & OutboundMessage)
  | { kind: 'end_direct_session'; reason: DirectEndReason }
  /** Write the projection in D1, at once if it is urgent; the outcome comes back as `projection_ended`. */
  | { kind: 'write_projection'; projection: Projection; isUrgent: boolean }
  | { kind: 'check_record'; productKey: string }
  /** The device has ended because D1 has no record of it: its credential at the broker has to end, too. */
  | { kind: 'delete_at_broker'; productKey: string }
  /** `generations`: of the credentials whose relay sessions stay. */
  | { kind: 'end_relay_sessions'; cause: RevokeCause; shards: readonly string[]; generations: readonly number[] }
  | { kind: 'write_members'; version: number; members: readonly Member[] }
  | { kind: 'end_subscriptions'; userId: number; shard: string }
  /** Ask D1 whether a giver's account and API key are valid. If D1 answers, it comes back as `giver_checked`. */
  | { kind: 'check_giver'; userId: number; keyId: string | null }
  | { kind: 'notify_waiting'; commandId: string }
  | { kind: 'log_failed_message'; spoolId: string; seq: number; error: unknown };

/** `expiresAtMs`: the broker has to have it by then. */
type OutboundMessage = { topic: string; payload: string; expiresAtMs: number };

/** What D1 is to know of a device; only a higher version replaces what it has. */
export type Projection = {
  version: number;
  name: string;
  isDisabled: boolean;
  connectionStatus: 0 | 1 | 2;
  lastOnlineAt: number | null;
  owner: { ownerId: number; claimedAt: number | null } | null;
};
