// A device's login: which one is refused and how that is remembered, and what an accepted one does to the credentials.
import { loginRefusalReasonOf, type Refusal } from '../refusal.ts';
import { hasContested, noteSession, noteUse, validPasswords } from './credentials.ts';
import { countLoginRefusal } from './login-refusals.ts';
import { countActivation } from './ownership.ts';
import type { DeviceState } from './state.ts';

/** `matchedDigest`: the stored digest that equals the password's. */
export type Login = { productKey: string; isClientIdRight: boolean; matchedDigest: string | undefined };

export function refuseLogin(state: DeviceState, login: Login, nowMs: number): Refusal | undefined {
  const { credentials, identity } = state;
  const { deviceId } = identity;
  if (login.productKey !== identity.productKey) return { kind: 'not_found', what: 'device', id: deviceId };
  if (!login.isClientIdRight) return { kind: 'wrong_client_id', deviceId };
  const isValid = validPasswords(credentials, nowMs).some(({ digest }) => digest === login.matchedDigest);
  if (!isValid) {
    const problem = login.matchedDigest === undefined ? 'wrong' : 'revoked';
    return { kind: 'credential_refused', credential: 'messaging_password', problem, deviceId };
  }
  return identity.isDisabled ? { kind: 'device_disabled', deviceId } : undefined;
}

export function noteRefusal(state: DeviceState, refusal: Refusal, address: string | null, nowMs: number): DeviceState {
  const reason = loginRefusalReasonOf(refusal);
  if (reason === undefined) return state;
  return { ...state, loginRefusals: countLoginRefusal(state.loginRefusals, reason, address, nowMs) };
}

/** The device once the password has begun a session, at a broker or at the edge, which ends the one before. */
export function noteSessionLogin(
  state: DeviceState,
  digest: string,
  address: string | null,
  nowMs: number,
): DeviceState {
  const { connection } = state.presence;
  const used = noteUse(state.credentials, digest, nowMs);
  const awaited = used.isAwaitingLogin ? { ...used, isAwaitingLogin: false, acceptedFromMs: nowMs } : used;
  const credentials = noteSession(awaited, digest, connection.isSessionOpen || connection.isOnline, nowMs);
  const next = { ...state, credentials };
  return hasContested(awaited, credentials)
    ? countActivation(next, { status: 'credentials', reason: 'contested' }, address, nowMs)
    : next;
}
