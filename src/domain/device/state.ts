// The state of one device, slice by slice, as plain data. Only decide.ts makes a new one; each slice's rules are in the
// slice's own file.
import type { MemberRole } from '../access.ts';
import type { ControlParams } from '../control-command.ts';
import type { Position } from '../../protocol/mqtt.ts';
import type { Json } from '../json.ts';
import type { PublishFailure } from '../publish-outcome.ts';
import type { Spent } from './budget.ts';
import type { Command } from './command-life.ts';
import type { PresenceState } from './connection.ts';
import type { CredentialsSlice } from './credentials.ts';
import type { DeduplicationSlice } from './deduplication.ts';
import type { HourlyCount } from './hourly-counts.ts';
import type { IdentitySlice } from './identity.ts';
import type { LastRejected } from './last-rejected.ts';
import type { LoginRefusal } from './login-refusals.ts';
import type { HistoryEntry, Transition } from './history.ts';
import type { ActivationCount, OwnershipSlice } from './ownership.ts';
import type { Subscription } from './subscriptions.ts';

export type DeviceState = {
  settings: DeviceSettings;
  identity: IdentitySlice;
  ownership: OwnershipSlice;
  credentials: CredentialsSlice;
  presence: PresenceSlice;
  edge: EdgeSlice;
  projection: ProjectionSlice;
  properties: PropertiesSlice;
  commands: CommandsSlice;
  subscriptions: readonly Subscription[];
  deduplication: DeduplicationSlice;
  coalesced: CoalescedSlice;
  /** Memory only: what the device has used up of its limits. */
  budgets: Readonly<Record<'messages' | 'transitions' | 'announcements' | 'guestUses', Spent>>;
  loginRefusals: readonly LoginRefusal[];
  activations: readonly ActivationCount[];
  recordCheck: RecordCheckSlice;
  floods: readonly HourlyCount[];
  sharing: SharingSlice;
  guests: GuestLinksSlice;
  lastRejected: LastRejected | null;
  alarm: AlarmSlice;
  /** Entries of the histories that are not in storage yet. */
  newHistory: readonly HistoryEntry[];
};

/** What the configuration of the Worker says about all devices. */
export type DeviceSettings = {
  /** The broker reports connects and disconnects; otherwise inactivity is watched. */
  reportsConnections: boolean;
  keepAliveSeconds: number;
  /** The broker asks at each login; otherwise it was given the credentials. */
  asksAtLogin: boolean;
  limits: DeviceLimits;
};

/** See docs/limits.md. */
type DeviceLimits = Record<
  | 'sessionSilenceHours'
  | 'passwordsInUsePerDevice'
  | 'edgeWatchSeconds'
  | 'edgeReconnectGraceSeconds'
  | 'membersPerDevice'
  | 'guestLinksPerDevice'
  | 'guestLinkUses'
  | 'guestLinkDays'
  | 'deviceGuestUsesPerMinute'
  | `device${'Messages' | 'Transitions' | 'Announcements' | 'Projections'}PerMinute`,
  number
>;

export type Announcement = { status: 'online' | 'offline'; time: number; isPublished: boolean };

export type PresenceSlice = {
  connection: PresenceState;
  /** Number of the last transition. */
  transitions: number;
  /** Transitions that are not in the history yet, because there were too many: the last, with their number. */
  waiting: { entry: Transition; dueAtMs: number } | null;
  /** The service's own last status messages, newest last: they come back through the bridge and must not be believed. */
  announcements: readonly Announcement[];
  /** Number of the last change that D1 has to know of. */
  projectionVersion: number;
  isProjectionBehind: boolean;
  /** Memory only: the newest announcement is with the broker. */
  isAnnouncing: boolean;
  /** Memory only: when the announcement is tried again. */
  retryAtMs: number | null;
};

/** See edge-session.ts. */
export type EdgeSlice = {
  /** Open as far as is stored. */
  session: {
    startedAtMs: number;
    /** Since when its socket is known to be gone without a word: a deployment or the end of a process. */
    lostAtMs: number | null;
  } | null;
  /** The last session was here and not at a broker. */
  isLast: boolean;
  /** Memory only: when somebody looks whether the device is still there. */
  checkAtMs: number | null;
};

/** Memory only: `isProjectionBehind` of the presence slice is what outlives the object. */
export type ProjectionSlice = {
  /** The owner waits for it: the next write starts at once. */
  isUrgent: boolean;
  startedAtMs: number;
  /** No write starts before; while one is under way, when it counts as lost. */
  nextAtMs: number;
  /** Failures in a row. */
  failures: number;
};

/** Memory only: what a device said beyond its limit and what is not applied yet. */
export type CoalescedSlice = {
  properties: readonly (readonly [name: string, value: Json])[];
  reportedAtMs: number;
  status: { word: 'online' | 'offline'; atMs: number } | null;
  /** When it is applied; null where nothing waits. */
  dueAtMs: number | null;
};

export type PropertiesSlice = {
  values: readonly (readonly [name: string, value: Json, arrivedAtMs: number])[];
  /** Number of the last change of the position. */
  positionChanges: number;
  /** The last changes, oldest first. */
  positions: readonly PositionChange[];
};

export type PositionChange = { position: Position; time: number };

export type CommandsSlice = {
  /** Newest first: the newest open commands, and those that the present event names. */
  loaded: readonly Command[];
  /** Stored answers that the present event reads or writes. */
  records: readonly IdempotencyRecord[];
  /** Memory only: handed to the broker, which has not answered. */
  inFlight: readonly InFlight[];
};

/** The stored answer to a request with an Idempotency-Key. */
export type IdempotencyRecord = {
  key: string;
  /** Of the request: the same key with another request is a mistake of the caller. */
  digest: string;
  commandId: string;
  deviceOnline: boolean;
  expiresAtMs: number;
  createdAtMs: number;
  /** `pending` while the broker is asked, or for good where the object ended meanwhile. */
  publication: 'pending' | 'sent' | PublishFailure;
};

type InFlight = { commandId: string; startedAtMs: number; record: IdempotencyRecord | undefined };

export type RecordCheckSlice = {
  /** When D1 last had the device's record. */
  confirmedAtMs: number;
  /** Since when D1 has answered that it has none. */
  missingSinceMs: number | null;
  /** When D1 is asked. */
  dueAtMs: number | null;
  /** Memory only: it was asked, and is asked again then where it does not answer. */
  askAgainAtMs: number | null;
};

export type AlarmSlice = {
  /** As set in storage; null where none is. */
  setAtMs: number | null;
  /** It is set for the device's inactivity, and so records when its last message was. */
  isForInactivity: boolean;
};

/** See guest-links.ts. */
export type GuestLinksSlice = {
  /** Oldest first. */
  links: readonly GuestLink[];
  /** Number of the last entry in their history. */
  entries: number;
};

export type GuestLink = {
  linkId: string;
  params: ControlParams;
  createdBy: number;
  createdAtMs: number;
  expiresAtMs: number;
  maxUses: number;
  uses: number;
  lastUsedAtMs: number | null;
  /** The device was disabled. */
  isEnded: boolean;
};

export type Member = { userId: number; role: MemberRole; sinceMs: number };

export type SharingSlice = {
  members: readonly Member[];
  /** Number of the last change of the members, and of the last that D1 has. */
  version: number;
  writtenVersion: number;
  /** Users who may no longer follow the device, with the relay shards that do not know it yet. */
  ending: readonly { userId: number; shard: string }[];
  /** Memory only: when what is open is tried again. */
  retryAtMs: number;
};
