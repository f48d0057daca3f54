// What its owner changes of a device: its name, whether it is disabled, its messaging credentials. Whose it is changes in
// owner-change.ts.
import { refuse } from '../refusal.ts';
import { endGenerations, isActivated, replacePasswords } from './credentials.ts';
import { closeEdgeSession, revokeEdgeSession } from './edge-session.ts';
import type { Effect } from './effects.ts';
import type { EventOf, Handled } from './events.ts';
import { endGuestLinks } from './guest-links.ts';
import { note } from './ownership.ts';
import { applyPresence } from './presence.ts';
import { markProjectionBehind } from './projection.ts';
import { endRelaySessions } from './relay-sessions.ts';
import { refuseUnless } from './rights.ts';
import type { DeviceState } from './state.ts';

export function administer(
  state: DeviceState,
  { actor, change }: EventOf<'administered'>,
  nowMs: number,
  effects: Effect[],
): Handled<'administered'> {
  const refusal =
    (change.name !== undefined || change.isDisabled === undefined ? refuseUnless(state, actor, 'rename') : undefined) ??
    (change.isDisabled === undefined ? undefined : refuseUnless(state, actor, 'disable'));
  if (refusal !== undefined) return { state, result: refuse(refusal) };
  const isEnabled = state.identity.isDisabled && change.isDisabled === false;
  const credentials = isEnabled ? endGenerations(state.credentials) : state.credentials;
  const changed = markProjectionBehind({ ...state, credentials, identity: { ...state.identity, ...change } }, true);
  // A disabled device is announced as offline, an enabled one as what it is.
  const isToEnd = change.isDisabled === true;
  const ended = isToEnd ? closeEdgeSession(endGuestLinks(changed), 'disabled', nowMs, effects) : changed;
  const next = applyPresence(ended, { kind: 'due' }, nowMs, effects).state;
  if (isToEnd) endRelaySessions(next, 'disabled', nowMs, effects);
  const { name, isDisabled } = next.identity;
  return { state: next, result: { ok: true, value: { name, isDisabled } } };
}

export function replaceCredentials(
  state: DeviceState,
  { passwordDigest, address }: EventOf<'credentials_replaced'>,
  nowMs: number,
  effects: Effect[],
): Handled<'credentials_replaced'> {
  const { credentials, settings, identity } = state;
  const issued = { secretDigest: credentials.secretDigest, passwordDigest };
  const replaced = replacePasswords(credentials, issued, settings.asksAtLogin, nowMs);
  const known = isActivated(credentials) ? state : markProjectionBehind(state, true);
  const next = revokeEdgeSession({ ...known, credentials: replaced }, nowMs, effects);
  endRelaySessions(next, 'credentials rotated', nowMs, effects);
  const { productKey, deviceId } = identity;
  return {
    state: note(next, 'credentials_replaced', address, nowMs),
    result: { ok: true, value: { productKey, deviceId } },
  };
}
