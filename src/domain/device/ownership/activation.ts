// What an activation does to a device (decision: activation): makes it, gives a known serial a further messaging password, or
// takes it for the user who claims it. What may activate again is ownership.ts; what a new owner does is administration.ts.
import type { ActivationReason, ActivationRefusalReason } from '../../../protocol/vocabulary.ts';
import { accept, refuse, refused, type Outcome, type Refusal } from '../../refusal.ts';
import { countFact } from '../core/counts.ts';
import type { Handler } from '../core/events.ts';
import { newState, type DeviceSettings, type DeviceState } from '../core/state.ts';
import { compareProjection, markOwnerChanged, markProjectionBehind } from '../presence/projection.ts';
import { beginOwnershipPeriod, endSession } from './administration.ts';
import * as passwords from './credentials.ts';
import { judgeActivation, note, type ActivationProof, type IdentitySlice, type TransferOffer } from './ownership.ts';
import type { Member } from './sharing.ts';

export type Activation = passwords.IssuedSecrets &
  ActivationProof & {
    facts: Omit<IdentitySlice, 'deviceId'>;
    defaultName: string;
    /** D1 has more of it than its record: it had a session once. */
    wasActivated: boolean;
  };

export type LostDevice = {
  deviceId: string;
  settings: DeviceSettings;
  facts: Omit<IdentitySlice, 'deviceId'>;
  members: readonly Member[];
  membersVersion: number;
  offer: TransferOffer | null;
  projectionVersion: number;
};

/** `endsSessions`: sessions at the broker that were opened with earlier passwords are over. */
export type Provisioned = { isNew: boolean; endsSessions: boolean };

/** A serial that was activated before. Refused, it changes nothing but the events. */
export const activateAgain: Handler<'provisioned'> = (state, activation, decision) => {
  const { nowMs } = decision;
  const { identity, settings } = state;
  const { address, claimantId, defaultName, secretDigest, passwordDigest, facts } = activation;
  const { deviceId } = identity;
  const refused = (reason: ActivationRefusalReason, refusal: Refusal) => ({
    state: countFact(state, { status: 'activation_refused', reason, address }, nowMs),
    result: refuse(refusal),
  });
  if (identity.isDisabled) return refused('disabled', { kind: 'device_disabled', deviceId });
  const judged = judgeActivation(state, activation, facts.reactivation, nowMs);
  if (!judged.isAllowed) {
    const { reason } = judged;
    if (reason === 'no_claim_code') return refused(reason, { kind: 'claim_code_required' });
    return refused(reason, { kind: 'reactivation_refused', deviceId, because: reason });
  }
  const issued = { secretDigest, passwordDigest };
  const count = (next: DeviceState) => countFact(next, { status: 'activated', reason: judged.reason, address }, nowMs);
  if (claimantId !== undefined && identity.claimedAtMs === null) {
    const ended = endSession(state, decision);
    const when = { claimedAtMs: nowMs, tokenUsedAtMs: nowMs };
    const owner = { ownerId: claimantId, ...when, name: defaultName, reactivation: facts.reactivation };
    const claimed = note(beginOwnershipPeriod(ended, owner, decision), 'claimed', address, nowMs);
    const emptied = passwords.endPasswords(claimed.credentials, settings.asksAtLogin, nowMs);
    const credentials = passwords.issue(emptied, issued, nowMs, { shownTo: claimantId });
    return {
      state: count({ ...claimed, credentials }),
      result: accept({ isNew: false, endsSessions: true }),
    };
  }
  const credentials = passwords.addPassword(
    state.credentials,
    issued,
    nowMs,
    marksOf(state, judged.reason, activation),
  );
  if ('roomAtMs' in credentials) {
    const retryAfterSeconds = Math.ceil((credentials.roomAtMs - nowMs) / 1000);
    return refused('too_many_in_use', { kind: 'rate_limited', limit: 'passwordsInUsePerDevice', retryAfterSeconds });
  }
  const marked = passwords.isActivated(state.credentials) ? state : markProjectionBehind(state, true);
  const next = count({ ...marked, credentials });
  if (credentials.ended !== state.credentials.ended) passwords.endRelaySessions(next, 'credentials_rotated', decision);
  return { state: next, result: accept({ isNew: false, endsSessions: false }) };
};

/**
 * A person may have sent the activation in place of the device: with a token, in the window that they opened, or with the
 * secret of an answer that they saw.
 */
function marksOf(
  state: DeviceState,
  reason: ActivationReason,
  { claimantId, address }: Pick<Activation, 'claimantId' | 'address'>,
): passwords.PasswordMarks {
  const { identity, ownership, credentials } = state;
  if (reason === 'open' || reason === 'after_release') return { isUnproven: true, network: address ?? '' };
  if (reason === 'in_window') return { shownTo: identity.ownerId, windowUntilMs: ownership.pairing?.untilMs };
  return { shownTo: claimantId ?? credentials.passwords.at(-1)?.shownTo };
}

/** A new serial. A device whose session was lost has to be restored before: D1 knows its owner. */
export function activateFirst(
  event: Activation & { deviceId: string; settings: DeviceSettings },
  nowMs: number,
): { state: DeviceState | 'unused'; result: Outcome<Provisioned> } {
  const { deviceId, settings, facts, address, claimantId, lacksCode, wasActivated } = event;
  if (wasActivated) return refused('unused', { kind: 'device_not_activated', deviceId });
  if (facts.isDisabled) return refused('unused', { kind: 'device_disabled', deviceId });
  if (lacksCode) return refused('unused', { kind: 'claim_code_required' });
  const owner = claimantId === undefined ? {} : { ownerId: claimantId, claimedAtMs: nowMs, tokenUsedAtMs: nowMs };
  const credentials = passwords.issue(passwords.credentialsSlice.initial, event, nowMs, { shownTo: claimantId });
  const made = newDevice({ deviceId, ...facts, ...owner }, settings, credentials, nowMs);
  const counted = countFact(made, { status: 'activated', reason: 'first', address }, nowMs);
  const result = { ok: true, value: { isNew: true, endsSessions: false } } as const;
  if (claimantId === undefined) return { state: counted, result };
  return { state: markOwnerChanged(note(counted, 'claimed', address, nowMs)), result };
}

/** A session was lost: what D1 knows of the device is its state. It has to activate again. */
export function restore(
  { deviceId, settings, facts, members, membersVersion, offer, projectionVersion }: LostDevice,
  nowMs: number,
): DeviceState {
  // Nobody knows which passwords were valid.
  const credentials = passwords.endPasswords(passwords.credentialsSlice.initial, settings.asksAtLogin, nowMs);
  const made = newDevice({ deviceId, ...facts }, settings, credentials, nowMs);
  const sharing = { ...made.sharing, members, version: membersVersion, writtenVersion: membersVersion };
  const ownership = { ...made.ownership, offer };
  const noted = note({ ...made, sharing, ownership }, 'session_restored', null, nowMs);
  return compareProjection(noted, projectionVersion);
}

function newDevice(
  identity: IdentitySlice,
  settings: DeviceSettings,
  credentials: passwords.CredentialsSlice,
  nowMs: number,
): DeviceState {
  const made = newState(settings);
  return { ...made, identity, credentials, recordCheck: { ...made.recordCheck, confirmedAtMs: nowMs } };
}
