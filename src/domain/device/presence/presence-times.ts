// Every time that decides whether a device counts as online. Limits (docs/limits.md) and products set some of them; the others
// are constants. Decides nothing: the rules are in presence.ts, for a direct connection in sessions.ts.
import { hourMs, secondMs } from '../../time.ts';

export type PresenceLimits = Record<
  'sessionSilenceHours' | 'directWatchSeconds' | 'directReconnectGraceSeconds',
  number
>;

export const presenceTimes = {
  /** A device whose broker reports no connections is offline after 1.5 keep-alives without a message (field note 39), the
   * resolution of the record of the last message, and a tenth for the network. */
  inactivityMs: (keepAliveSeconds: number) => (1.5 + 0.4 + 0.1) * keepAliveSeconds * secondMs,
  /** How coarsely the last message is recorded then: each record costs a row. */
  recordResolutionMs: (keepAliveSeconds: number) => Math.round(0.4 * keepAliveSeconds * secondMs),
  /** A session that the broker reported ends after this time without a message: the report of its end may be lost. */
  sessionSilenceMs: ({ sessionSilenceHours }: PresenceLimits) => sessionSilenceHours * hourMs,
  sessionResolutionMs: ({ sessionSilenceHours }: PresenceLimits) => (sessionSilenceHours * hourMs) / 8,
  /** A direct connection ends after 1.5 of its own keep-alives without a packet (MQTT-3.1.2-24). */
  directSilenceMs: (keepAliveSeconds: number) => 1.5 * keepAliveSeconds * secondMs,
  /** A direct connection is checked this often, less often the longer it lasts, up to three times as long. */
  directCheckMs: ({ directWatchSeconds }: PresenceLimits, lastedMs: number) =>
    Math.min(Math.max(directWatchSeconds * secondMs, lastedMs), 3 * directWatchSeconds * secondMs),
  /** A device whose direct connection was lost, as at a deployment, counts as online until it had time to come back. */
  directReconnectMs: ({ directReconnectGraceSeconds }: PresenceLimits) => directReconnectGraceSeconds * secondMs,
  /** A broker that restarted has forgotten its sessions: its devices have this time to show that they are there. */
  brokerRestartMs: ({ brokerRestartGraceSeconds }: { brokerRestartGraceSeconds: number }) =>
    brokerRestartGraceSeconds * secondMs,
  /** How long the announcement of a lost connection is held back: a setting of the product. */
  offlineGraceMs: ({ offlineGraceSeconds }: { offlineGraceSeconds: number }) => offlineGraceSeconds * secondMs,
  /** Bridge and broker have clocks of their own: a message this much younger than an end may still belong before it. */
  reorderingMs: 2 * secondMs,
  /** The will of a session that another session replaced arrives within this time of the new session's start. */
  oldWillMs: 5 * secondMs,
  /** The same for the offline announcement of a session that nobody had reported. */
  unknownFarewellMs: secondMs,
} as const;
