// What an activation does to a device (decision: activation): makes it, gives a known serial a further messaging password, or
// takes it for who claims it. What may activate again is ownership.ts; what a claim wipes is owner-change.ts.
import type { ReactivationPolicy } from '../../protocol/vocabulary.ts';
import type { Outcome, Refusal } from '../refusal.ts';
import { refuse } from '../refusal.ts';
import { noAlarm } from './alarm.ts';
import { noneSpent } from './budget.ts';
import { nothingCoalesced } from './coalescing.ts';
import { noCommands } from './commands.ts';
import {
  addPassword,
  firstCredentials,
  replacePasswords,
  type CredentialsSlice,
  type IssuedSecrets,
} from './credentials.ts';
import { noMessages } from './deduplication.ts';
import { noEdgeSession } from './edge-session.ts';
import type { Effect } from './effects.ts';
import type { IdentitySlice } from './identity.ts';
import { beginLife, endSession, markOwnerChanged } from './owner-change.ts';
import { countActivation, judgeActivation, noOwnership, note } from './ownership.ts';
import { noPresence } from './presence.ts';
import { noProjection } from './projection.ts';
import { noProperties } from './properties.ts';
import { noRecordCheck } from './record-check.ts';
import { endRelaySessions } from './relay-sessions.ts';
import { noGuestLinks } from './guest-links.ts';
import { notShared } from './sharing.ts';
import type { DeviceSettings, DeviceState } from './state.ts';

export type Activation = IssuedSecrets & {
  facts: Omit<IdentitySlice, 'deviceId'>;
  /** The name of a device that nobody has named. */
  defaultName: string;
  policy: ReactivationPolicy | null;
  /** The user of the claim token that came with it. */
  claimantId: number | undefined;
  isSecretRight: boolean;
  address: string | null;
};

/** `endsSessions`: sessions at the broker that were opened with earlier passwords are over. */
export type Provisioned = { isNew: boolean; endsSessions: boolean };

/** A serial that was activated before. Refused, it changes nothing but the events. */
export function activateAgain(
  state: DeviceState,
  activation: Activation,
  nowMs: number,
  effects: Effect[],
): { state: DeviceState; result: Outcome<Provisioned> } {
  const { identity, ownership, settings } = state;
  const { address, claimantId, defaultName, secretDigest, passwordDigest } = activation;
  const { deviceId } = identity;
  const refused = (
    reason: Parameters<typeof countActivation>[1]['reason'],
    refusal: Refusal,
  ): { state: DeviceState; result: Outcome<Provisioned> } => ({
    state: countActivation(state, { status: 'activation_refused', reason } as never, address, nowMs),
    result: refuse(refusal),
  });
  if (identity.isDisabled) return refused('disabled', { kind: 'device_disabled', deviceId });
  const judged = judgeActivation(state, activation, nowMs);
  if (!judged.isAllowed) {
    return refused(judged.reason, { kind: 'reactivation_refused', deviceId, because: judged.reason });
  }
  const issued = { secretDigest, passwordDigest };
  const count = (next: DeviceState) =>
    countActivation(next, { status: 'activated', reason: judged.reason }, address, nowMs);
  if (claimantId !== undefined && identity.claimedAtMs === null) {
    const ended = endSession(state, nowMs, effects);
    const owner = { ownerId: claimantId, claimedAtMs: nowMs, name: defaultName };
    const claimed = note(beginLife(ended, owner, nowMs, effects), 'claimed', address, nowMs);
    const isAwaitingLogin = settings.asksAtLogin;
    const credentials = replacePasswords(claimed.credentials, issued, isAwaitingLogin, nowMs);
    return {
      state: count({ ...claimed, credentials }),
      result: { ok: true, value: { isNew: false, endsSessions: true } },
    };
  }
  const { passwordsInUsePerDevice: maxInUse } = settings.limits;
  const isUnproven = judged.reason === 'open';
  const credentials = addPassword(state.credentials, issued, nowMs, { maxInUse, isUnproven });
  if ('roomAtMs' in credentials) {
    const retryAfterSeconds = Math.ceil((credentials.roomAtMs - nowMs) / 1000);
    return refused('too_many_in_use', { kind: 'rate_limited', limit: 'passwordsInUsePerDevice', retryAfterSeconds });
  }
  const next = count({ ...state, ownership: { ...ownership, isReleased: false }, credentials });
  if (credentials.ended !== state.credentials.ended) endRelaySessions(next, 'credentials rotated', nowMs, effects);
  return { state: next, result: { ok: true, value: { isNew: false, endsSessions: false } } };
}

/** A serial that is new, or whose session was lost: then what D1 knows of its owner still counts. */
export function activateFirst(
  event: Activation & { deviceId: string; settings: DeviceSettings },
  nowMs: number,
): { state: DeviceState | 'unused'; result: Outcome<Provisioned> } {
  const { deviceId, settings, facts, address, claimantId } = event;
  if (facts.isDisabled) return { state: 'unused', result: refuse({ kind: 'device_disabled', deviceId }) };
  if (facts.claimedAtMs !== null) {
    const judged = judgeActivation({ identity: facts, ownership: noOwnership }, event, nowMs);
    if (!judged.isAllowed) {
      const refusal = { kind: 'reactivation_refused', deviceId, because: judged.reason } as const;
      return { state: 'unused', result: refuse(refusal) };
    }
  }
  const isClaim = claimantId !== undefined && facts.claimedAtMs === null;
  const owner = isClaim ? { ownerId: claimantId, claimedAtMs: nowMs } : {};
  const made = newDevice({ deviceId, ...facts, ...owner }, settings, firstCredentials(event, nowMs), nowMs);
  const counted = countActivation(made, { status: 'activated', reason: 'first' }, address, nowMs);
  const result = { ok: true, value: { isNew: true, endsSessions: false } } as const;
  return { state: isClaim ? markOwnerChanged(note(counted, 'claimed', address, nowMs)) : counted, result };
}

function newDevice(
  identity: IdentitySlice,
  settings: DeviceSettings,
  credentials: CredentialsSlice,
  nowMs: number,
): DeviceState {
  return {
    settings,
    identity,
    ownership: noOwnership,
    edge: noEdgeSession,
    credentials,
    presence: noPresence,
    projection: noProjection,
    properties: noProperties,
    commands: noCommands,
    subscriptions: [],
    deduplication: noMessages,
    loginRefusals: [],
    activations: [],
    recordCheck: { ...noRecordCheck, confirmedAtMs: nowMs },
    floods: [],
    lastRejected: null,
    sharing: notShared,
    guests: noGuestLinks,
    alarm: noAlarm,
    coalesced: nothingCoalesced,
    budgets: noneSpent,
    newHistory: [],
  };
}
