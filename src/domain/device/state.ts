// The state of one device, slice by slice, as plain data. Only decide.ts makes a new one; each slice's rules are in the
// slice's own file.
import type { AlarmSlice } from './alarm.ts';
import type { CommandsSlice } from './commands.ts';
import type { CredentialsSlice } from './credentials.ts';
import type { DeduplicationSlice } from './deduplication.ts';
import type { IdentitySlice } from './identity.ts';
import type { LoginRefusal } from './login-refusals.ts';
import type { HistoryEntry } from './history.ts';
import type { PresenceSlice } from './presence.ts';
import type { PropertiesSlice } from './properties.ts';
import type { Subscription } from './subscriptions.ts';

export type DeviceState = {
  settings: DeviceSettings;
  identity: IdentitySlice;
  credentials: CredentialsSlice;
  presence: PresenceSlice;
  properties: PropertiesSlice;
  commands: CommandsSlice;
  subscriptions: readonly Subscription[];
  deduplication: DeduplicationSlice;
  loginRefusals: readonly LoginRefusal[];
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
};
