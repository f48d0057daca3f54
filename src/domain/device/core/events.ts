// What can happen to a device, what each event answers, and what a decision asks the shell to do once its state is written.
// Facts that the core cannot find itself (fresh ids, compared digests, rows that are not loaded) are part of the event.
// Effects are plain data, so that a test can read them. They hold what was true when it was decided: the state may have moved on.
import type { TopicAction } from '../../../protocol/mqtt.ts';
import type { Actor, MemberRole } from '../../access.ts';
import type { NoticeChange } from '../../notices.ts';
import type { PublishOutcome } from '../../publish-outcome.ts';
import type { Outcome } from '../../refusal.ts';
import type { TakeAnswer } from '../../webhooks/webhooks.ts';
import type { DeviceIdentity } from '../../topics.ts';
import type { AcceptedCommand, CommandRequest, CommandView } from '../commands/commands.ts';
import type { Offer, UpdateReport } from '../firmware/updates.ts';
import type { Get } from '../../../protocol/firmware.ts';
import type { GuestLinkView, GuestUse, NewGuestLink } from '../commands/guest-links.ts';
import type { DirectInbound, InboundMessage, MessageResult } from '../messages/inbox.ts';
import type { Activation, LostDevice, Provisioned } from '../ownership/activation.ts';
import type { Login } from '../ownership/credentials.ts';
import type { PairingWindow, ProductFacts, TransferOffer } from '../ownership/ownership.ts';
import type { InvitationChange, Member, NewMember, Party } from '../ownership/sharing.ts';
import type { DirectSessionEnd, OpenSession } from '../presence/sessions.ts';
import type { PresenceEvent } from '../presence/presence.ts';
import type { ProjectionOutcome } from '../presence/projection.ts';
import type { Subscription } from '../messages/subscriptions.ts';
import type { ScheduleDraft } from '../times/schedules.ts';
import type { Day } from '../usage/usage.ts';
import type { Condition, Reading } from '../witness/witness.ts';
import type { EventReceiver, Webhooks } from './outgoing.ts';
import type { DeviceSettings, DeviceState } from './state.ts';
import type { DirectEndReason } from '../../direct/answer-codes.ts';
import type { RunView, ScheduleView } from '../../../protocol/http/times.ts';
import type { WitnessSettings } from '../../../protocol/http/witness.ts';
import type { RevokeCause } from '../../../protocol/relay.ts';
import type { EventType, MessageRejectionReason } from '../../../protocol/vocabulary.ts';

export type DeviceEvent =
  | ({ kind: 'provisioned'; deviceId: string; settings: DeviceSettings } & Activation)
  | ({ kind: 'record_restored' } & LostDevice)
  /** With its history and its commands. The versions are of the record that came with it. */
  | { kind: 'record_imported'; state: DeviceState; projectionVersion: number; membersVersion: number }
  /** A login at the broker or at a relay shard. */
  | ({ kind: 'login_attempted'; address: string | null; relayShard: string | undefined } & Login)
  /** A direct login. `takenOver`: the session whose socket is still there. */
  | ({ kind: 'direct_connected'; address: string | null; takenOver: { will: string | null } | null } & Login)
  | {
      kind: 'direct_packets_received';
      startedAtMs: number;
      messages: readonly DirectInbound[];
      delivered: readonly string[];
      hasSubscribed: boolean;
      end: DirectSessionEnd | null;
    }
  | { kind: 'direct_ended'; end: DirectSessionEnd }
  | { kind: 'direct_checked'; open: OpenSession | null }
  | { kind: 'connection_reported'; report: ConnectionReport }
  | { kind: 'messages_received'; productKey: string; spoolId: string; messages: readonly InboundMessage[] }
  | { kind: 'messages_dropped'; count: number }
  /** The broker acknowledged it, or will, and passes it to nobody. */
  | { kind: 'publish_refused'; reason: MessageRejectionReason; topic: string }
  /** Saving the message's effect failed, saving that of others did not. */
  | { kind: 'message_put_aside'; spoolId: string; seq: number; action: TopicAction }
  | { kind: 'relay_message_received'; productKey: string; generation: number; action: TopicAction; payload: string }
  | { kind: 'command_requested'; actor: Actor; request: CommandRequest }
  | { kind: 'publication_ended'; commandId: string; outcome: PublishOutcome }
  | { kind: 'cancel_requested'; actor: Actor; commandId: string }
  | { kind: 'subscription_requested'; actor: Actor; productKey: string; shard: string; filter: string }
  | { kind: 'subscription_ended'; shard: string; registrationId: number }
  | { kind: 'administered'; actor: Actor; change: { name?: string; isDisabled?: boolean } }
  | ({ kind: 'member_joined' } & NewMember & Party)
  | ({ kind: 'member_changed'; actor: Actor; userId: number; role: MemberRole } & Party)
  | ({ kind: 'member_removed'; actor: Actor; userId: number } & Party)
  /** By a user who may share the device; declined by the invited user. */
  | ({ kind: 'invitation_changed'; actor: Actor; change: InvitationChange; role: MemberRole | null } & Party)
  | { kind: 'members_written'; version: number; isWritten: boolean }
  | { kind: 'subscriptions_ended'; userId: number; shard: string; isDone: boolean }
  | { kind: 'credentials_replaced'; actor: Actor; passwordDigest: string; address: string | null }
  | { kind: 'released'; actor: Actor; defaultName: string }
  | { kind: 'claim_undone'; actor: Actor; defaultName: string; address: string | null }
  | { kind: 'transfer_offered'; actor: Actor; offer: TransferOffer; address: string | null }
  | { kind: 'transfer_withdrawn'; actor: Actor; address: string | null }
  | { kind: 'transfer_answered'; userId: number; offerId: string; isAccepted: boolean; address: string | null }
  | { kind: 'pairing_window_set'; actor: Actor; pairing: PairingWindow | null; address: string | null }
  | { kind: 'reactivation_set'; actor: Actor; isOpen: boolean; address: string | null }
  | { kind: 'guest_link_made'; actor: Actor; link: NewGuestLink; address: string | null }
  | { kind: 'guest_link_revoked'; actor: Actor; linkId: string; address: string | null }
  | ({ kind: 'guest_link_used' } & GuestUse)
  | { kind: 'schedule_put'; actor: Actor; scheduleId: string; draft: ScheduleDraft; isNew: boolean }
  | { kind: 'schedule_changed'; actor: Actor; scheduleId: string; change: 'pause' | 'resume' | 'remove' }
  | { kind: 'schedule_run'; actor: Actor; scheduleId: string }
  | { kind: 'lease_ended'; actor: Actor }
  /** `linkId`: of its check-in link. */
  | { kind: 'witness_set'; actor: Actor; settings: WitnessSettings | null; linkId: string | null }
  | { kind: 'checked_in'; linkId: string }
  /** What another device, the witness, has read. */
  | { kind: 'witness_read'; deviceId: string; reading: Reading }
  | { kind: 'witness_asked'; commandId: string; problem: 'forbidden' | 'unreachable' | null }
  /** This device is the witness of `deviceId`, which asks for the last reading, and for each until then. */
  | { kind: 'watcher_set'; actor: Actor; deviceId: string; condition: Condition }
  | { kind: 'reading_asked'; deviceId: string; untilMs: number }
  | { kind: 'watcher_ended'; deviceId: string }
  /** By the campaign of a maker. `isStopped`: it is not to begin, or to go on downloading. */
  | { kind: 'update_offered'; offer: Offer; isStopped: boolean }
  | { kind: 'update_postponed'; actor: Actor }
  /** Somebody has the address of the image and asks for bytes up to `endsAt`; null: for the manifest. */
  | { kind: 'image_asked'; campaignId: string; endsAt: number | null }
  /** Send the actor's webhook all events from that number again. */
  | { kind: 'redelivery_requested'; actor: Actor; webhookId: string; from: number }
  /** What D1 says of the account, or of its API key, that gave commands or made guest links. */
  | { kind: 'giver_checked'; userId: number; keyId: string | null; isValid: boolean }
  | { kind: 'product_changed'; facts: ProductFacts }
  /** `actor`: null if no user asked for it. */
  | { kind: 'deleted'; actor: Actor | null }
  | { kind: 'announcement_ended'; time: number; isPublished: boolean }
  | { kind: 'projection_ended'; version: number; outcome: ProjectionOutcome }
  | { kind: 'record_checked'; isThere: boolean }
  /** The versions of projection and members in D1: a reconciliation found the record. */
  | { kind: 'record_compared'; projectionVersion: number; membersVersion: number }
  /** Directories answered, or have another answer: see Decision.webhooksOf. */
  | { kind: 'webhooks_changed' }
  /** `after`: of the call. */
  | { kind: 'events_taken'; webhookId: string; after: number; answer: TakeAnswer }
  /** The user's inbox has them. */
  | { kind: 'inbox_told'; userId: number; changes: readonly NoticeChange[] }
  | { kind: 'alarm_fired'; scheduledAtMs: number };

type ConnectionReport = Extract<PresenceEvent, { kind: 'connected' | 'disconnected' | 'doubted' }>;

export type EventKind = DeviceEvent['kind'];
export type EventOf<Kind extends EventKind> = Extract<DeviceEvent, { kind: Kind }>;

/** Requests of users. */
type AskedKind = Extract<DeviceEvent, { actor: Actor | null }>['kind'];

/** What others than the device's object itself send as they have it: see DeviceSession.decide. */
export type RequestKind =
  | Exclude<AskedKind, 'command_requested'>
  | 'connection_reported'
  | 'messages_dropped'
  | 'publish_refused'
  | 'relay_message_received'
  | 'subscription_ended'
  | 'checked_in'
  | 'witness_read'
  | 'reading_asked'
  | 'image_asked'
  | 'member_joined'
  | 'transfer_answered';

export type Handler<Kind extends RequestedKind> = (
  state: DeviceState,
  event: EventOf<Kind>,
  decision: Decision,
) => { state: DeviceState; result: Results[Kind] };
export type Reporter<Kind extends ReportKind> = (
  state: DeviceState,
  event: EventOf<Kind>,
  decision: Decision,
) => DeviceState;

/** `others` are the results that are not `accepted`, with the positions of their messages. */
export type Ingested = {
  others: (MessageResult & { position: number })[];
  subscriptions: readonly Subscription[];
  /** Generations of the valid credentials. Pushes carry them, so that relay sessions of other credentials end. */
  generations: readonly number[];
  readers: readonly number[];
};

export type DirectTaken = { results: MessageResult[] } & Pick<Ingested, 'subscriptions' | 'generations' | 'readers'>;

type Values = {
  provisioned: Outcome<Provisioned>;
  released: Outcome<DeviceIdentity>;
  claim_undone: Outcome<DeviceIdentity & { formerOwnerId: number }>;
  transfer_answered: Outcome<DeviceIdentity & { mustRenew: boolean }>;
  login_attempted: Outcome<DeviceIdentity & { generation: number }>;
  direct_connected: Outcome<{ startedAtMs: number }>;
  direct_packets_received: DirectTaken;
  messages_received: Ingested;
  relay_message_received: Outcome<MessageResult>;
  command_requested: Outcome<AcceptedCommand>;
  cancel_requested: Outcome<CommandView>;
  administered: Outcome<{ name: string; isDisabled: boolean }>;
  credentials_replaced: Outcome<DeviceIdentity>;
  member_joined: Outcome<Member>;
  member_changed: Outcome<Member>;
  guest_link_made: Outcome<GuestLinkView>;
  guest_link_used: Outcome<AcceptedCommand>;
  schedule_put: Outcome<ScheduleView>;
  schedule_changed: Outcome<ScheduleView>;
  schedule_run: Outcome<RunView>;
  checked_in: Outcome<null>;
  witness_read: Outcome<null>;
  reading_asked: Outcome<Reading | null>;
  update_offered: Outcome<UpdateReport>;
  image_asked: Outcome<null>;
};

/** A request of a user without a value answers whether it was done. */
type Answers = Values & Record<Exclude<AskedKind, keyof Values>, Outcome<null>>;

/** Events that only change the device answer nothing. */
export type RequestedKind = keyof Answers;
export type ReportKind = Exclude<EventKind, RequestedKind>;
export type Results = Answers & Record<ReportKind, null>;

export type Decision = {
  readonly nowMs: number;
  readonly effects: Effect[];
  readonly newCommand: () => { commandId: string; number: number };
  /** What the directories of these users last answered. */
  readonly webhooksOf: (readers: readonly number[]) => Webhooks;
};

export type Push = {
  topic: string;
  payload: string;
  subscriptions: readonly Subscription[];
  generations: readonly number[];
};

export type Effect =
  | ({ kind: 'push' } & Push)
  /** For these users alone. Their subscriptions of the device end after it, if they do. */
  | ({ kind: 'tell_readers'; readers: readonly number[] } & Push)
  /** Hand a command to the device's open direct session, else to the broker; the outcome comes back as `publication_ended`. */
  | ({ kind: 'publish_command'; commandId: string; messageExpirySeconds: number } & SceneStart & OutboundMessage)
  /** Ends as `announcement_ended`. `isDirect`: the device's last session was direct, so that no broker is asked. */
  | ({ kind: 'publish_announcement'; time: number; isDirect: boolean } & OutboundMessage)
  | { kind: 'end_direct_session'; reason: DirectEndReason }
  /** Write the projection in D1, at once if it is urgent; the outcome comes back as `projection_ended`, success only if it may not be lost. */
  | { kind: 'write_projection'; projection: Projection; isUrgent: boolean; mayBeLost: boolean }
  | { kind: 'check_record'; productKey: string }
  /** The device has ended because D1 has no record of it: its credential at the broker has to end, too. */
  | { kind: 'delete_at_broker'; productKey: string }
  /** `generations`: of the credentials whose relay sessions stay. */
  | { kind: 'end_relay_sessions'; cause: RevokeCause; shards: readonly string[]; generations: readonly number[] }
  | { kind: 'write_members'; version: number; members: readonly Member[] }
  | { kind: 'end_subscriptions'; userId: number; shard: string }
  /** Ask D1 whether a giver's account and API key are valid. If D1 answers, it comes back as `giver_checked`. */
  | { kind: 'check_giver'; userId: number; keyId: string | null }
  /** Comes back as `witness_read`, and for a command as `witness_asked`. */
  | { kind: 'ask_witness'; deviceId: string; untilMs: number; commandId: string | null }
  /** It comes back as `watcher_ended` if the device does not watch this one any more. */
  | { kind: 'tell_watcher'; deviceId: string; reading: Reading }
  | ({ kind: 'tell_upgrade' } & Pick<Offer, 'campaignId' | 'version' | 'size' | 'hash'>)
  /** Answers a `get` of the device. `campaignId`: null if no update is open. */
  | ({ kind: 'send_image'; campaignId: string | null } & Get)
  /** Something became of its update; lost, the campaign finds it when it looks. */
  | { kind: 'tell_campaign'; campaignId: string; report: UpdateReport }
  /** They ask what became of the device. */
  | { kind: 'tell_homes' }
  | { kind: 'learn_webhooks'; readers: readonly number[] }
  /** Send the wanted of the events after that number; it comes back as `events_taken`. */
  | ({ kind: 'deliver_events'; types: readonly EventType[]; after: number; last: number } & EventReceiver)
  /** It comes back as `inbox_told`, success only. */
  | { kind: 'tell_inbox'; userId: number; changes: readonly NoticeChange[] }
  | { kind: 'notify_waiting'; commandId: string }
  | { kind: 'log_failed_message'; spoolId: string; seq: number; error: unknown };

export type EffectOf<Kind extends Effect['kind']> = Extract<Effect, { kind: Kind }>;

/** `expiresAtMs`: the broker has to have it by then. */
type OutboundMessage = { topic: string; payload: string; expiresAtMs: number };

/** In place of a message: the scene of a schedule, and who gives it. */
type SceneStart = { scene: { sceneId: string; userId: number; keyId: string | null } | null };

/** What D1 is to know of a device; only a higher version replaces what it has. */
export type Projection = {
  version: number;
  name: string;
  isDisabled: boolean;
  connectionStatus: 0 | 1 | 2;
  lastOnlineAt: number | null;
  owner: { ownerId: number; claimedAt: number | null } | null;
  /** When a schedule or a lease is due next. */
  dueAt: number | null;
  /** Days that have ended, for the usage of the product: each is counted once. Absent: from a version before. */
  usage?: readonly Day[];
};
