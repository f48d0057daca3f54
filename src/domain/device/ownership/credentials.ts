// Slice: which messaging passwords are valid (decision: activation), as digests. A device never renews its password, and an
// answer may be lost, so that older passwords stay valid for a while. Also which login is refused, what an accepted login does
// to the passwords, and the relay sessions that end with them: each push carries the generations that are still valid.
import type { Slice, DeviceState } from '../core/state.ts';
import { loginRefusalReasonOf, refuse, refused, type Refusal } from '../../refusal.ts';
import type { RevokeCause } from '../../../protocol/relay.ts';
import { countFact } from '../core/counts.ts';
import type { Decision } from '../core/events.ts';
import { note } from './ownership.ts';
import { minuteMs } from '../../time.ts';

export type MessagingPassword = {
  digest: string;
  /** Number of the credential, never used twice. Each relay session belongs to a generation. */
  generation: number;
  issuedAtMs: number;
  firstUsedAtMs: number | null;
  /** The last login with it, by the minute; absent before the first. */
  lastUsedAtMs?: number;
  /** When another password took over the device's session at the broker; absent if none did. */
  replacedAtMs?: number;
  /** Anybody who knew the serial could get it: it ends no password that is still in use. */
  isUnproven?: boolean;
  /** The network that an unproven password was issued to. */
  network?: string | undefined;
  /** A login with an unproven password took over its open session: that does not end this password. */
  isKept?: boolean;
  /** The user who may have seen it: it ends when the device passes to another user. */
  shownTo?: number | undefined;
  /** The end of the pairing window that it was given in. */
  windowUntilMs?: number | undefined;
};
export type PasswordMarks = Pick<MessagingPassword, 'isUnproven' | 'network' | 'shownTo' | 'windowUntilMs'>;

const initial = {
  secretDigest: '',
  /** Newest last. */
  passwords: [] as readonly MessagingPassword[],
  /** The password of the last login at the broker; undefined before the first. */
  sessionDigest: undefined as string | undefined,
  /** Digests of the last passwords that ended, to tell a revoked password from a wrong one. */
  ended: [] as readonly string[],
  lastGeneration: 0,
  /** Passwords were revoked and no login has come since: what arrives is not from the device's new session. */
  isAwaitingLogin: false,
  /** Messages received before belong to a session whose password was revoked. */
  acceptedFromMs: 0,
};
export type CredentialsSlice = typeof initial;

export type IssuedSecrets = { secretDigest: string; passwordDigest: string };

const overlapMs = 10 * minuteMs;
const maxValid = 3;
/** Nobody has so many devices with the same serial in use; more is a stranger who activates it. */
export const passwordsInUsePerDevice = 10;
const maxEnded = 4;
const useResolutionMs = minuteMs;

export const credentialsSlice: Slice<CredentialsSlice> = {
  initial,
  row: 'administration',
  // Without a listening relay shard no session has to end: a login checks the time by itself.
  dueAtMs: ({ credentials, subscriptions }) => (subscriptions.length > 0 ? nextEndMs(credentials) : Infinity),
  onNewOwner: 'keep',
};

/** False for a device whose session was lost and that has not activated since. */
export function isActivated({ passwords, lastGeneration }: CredentialsSlice): boolean {
  return passwords.length > 0 || lastGeneration > 0;
}

/** A password is valid until ten minutes after a newer password was first used, and while it is in use. */
export function validPasswords(credentials: CredentialsSlice, nowMs: number): MessagingPassword[] {
  return credentials.passwords.filter((password) => endsAtMs(credentials, password) > nowMs);
}

export function liveGenerations(credentials: CredentialsSlice, nowMs: number): number[] {
  return validPasswords(credentials, nowMs).map(({ generation }) => generation);
}

export function nextEndMs(credentials: CredentialsSlice): number {
  return Math.min(...credentials.passwords.map((password) => endsAtMs(credentials, password)));
}

/** A stranger may know the serial: the password whose session another took over has ten minutes to come back. */
function endsAtMs(credentials: CredentialsSlice, password: MessagingPassword): number {
  const { passwords } = credentials;
  if (isInSession(credentials, password) || password.isKept === true) return Infinity;
  const newer = passwords.slice(passwords.indexOf(password) + 1);
  const outdatedAtMs = Math.min(...newer.map(({ firstUsedAtMs }) => (firstUsedAtMs ?? Infinity) + overlapMs));
  return Math.max(outdatedAtMs, (password.replacedAtMs ?? -Infinity) + overlapMs);
}

function isInSession({ passwords, sessionDigest }: CredentialsSlice, { digest }: MessagingPassword): boolean {
  return digest === (sessionDigest ?? passwords.findLast(({ firstUsedAtMs }) => firstUsedAtMs !== null)?.digest);
}

/** Infinity for the session's password; the others are in use for ten minutes after they were used. */
function inUseUntilMs(credentials: CredentialsSlice, password: MessagingPassword): number {
  if (isInSession(credentials, password)) return Infinity;
  const { replacedAtMs = -Infinity, lastUsedAtMs = -Infinity } = password;
  return Math.max(replacedAtMs, lastUsedAtMs + useResolutionMs) + overlapMs;
}

/** Drops the oldest passwords that are not in use; `roomAtMs`: when there is room, if too many are in use. */
export function addPassword(
  credentials: CredentialsSlice,
  issued: IssuedSecrets,
  nowMs: number,
  marks: PasswordMarks,
): CredentialsSlice | { roomAtMs: number } {
  const valid = validPasswords(credentials, nowMs);
  const idle = valid.filter((password) => inUseUntilMs(credentials, password) <= nowMs);
  const inUse = valid.length - idle.length;
  if (inUse >= passwordsInUsePerDevice) {
    const displaced = displaceable(credentials, valid, marks);
    const roomAtMs = Math.min(...valid.map((password) => inUseUntilMs(credentials, password)));
    if (displaced === undefined) return { roomAtMs };
    idle.push(displaced);
  }
  const room = Math.max(maxValid - 1 - inUse, 0);
  const dropped = idle.slice(0, Math.max(idle.length - room, 0));
  const kept = valid.filter((password) => !dropped.includes(password));
  return issue(withPasswords(credentials, kept), issued, nowMs, marks);
}

/**
 * The password in use that makes room: a stranger must not keep the device out of its own activation. It is the oldest of the
 * network that has most, if `network` has at least two fewer. An activation with a proof displaces any unproven password.
 */
function displaceable(
  credentials: CredentialsSlice,
  valid: readonly MessagingPassword[],
  { isUnproven = false, network }: PasswordMarks,
): MessagingPassword | undefined {
  const unproven = valid.filter((password) => password.isUnproven === true && !isInSession(credentials, password));
  if (!isUnproven) return unproven[0];
  const countOf = (of: string | undefined) => unproven.filter((password) => password.network === of).length;
  const most = unproven.toSorted((a, b) => countOf(b.network) - countOf(a.network))[0];
  return most !== undefined && countOf(most.network) > countOf(network) + 1 ? most : undefined;
}

/** A login at the broker, which ends the session that was there. `wasOpen`: that session had not ended before. */
export function noteSession(
  credentials: CredentialsSlice,
  digest: string,
  wasOpen: boolean,
  nowMs: number,
): CredentialsSlice {
  if (digest === credentials.sessionDigest) return credentials;
  const former = passwordOf(credentials, credentials.sessionDigest);
  if (former === undefined) return { ...credentials, sessionDigest: digest };
  const isKept = wasOpen && passwordOf(credentials, digest)?.isUnproven === true;
  const replaced = { ...former, replacedAtMs: nowMs, ...(isKept && { isKept }) };
  return { ...exchange(credentials, former, replaced), sessionDigest: digest };
}

export function noteUse(credentials: CredentialsSlice, digest: string, nowMs: number): CredentialsSlice {
  const password = passwordOf(credentials, digest);
  if (password === undefined || nowMs - (password.lastUsedAtMs ?? -Infinity) < useResolutionMs) return credentials;
  const used = { ...password, firstUsedAtMs: password.firstUsedAtMs ?? nowMs, lastUsedAtMs: nowMs };
  return exchange(credentials, password, used);
}

export function passwordOf({ passwords }: CredentialsSlice, digest: string | undefined): MessagingPassword | undefined {
  return passwords.find((password) => password.digest === digest);
}

function exchange(credentials: CredentialsSlice, former: MessagingPassword, latter: MessagingPassword) {
  const passwords = credentials.passwords.map((password) => (password === former ? latter : password));
  return { ...credentials, passwords };
}

export function keepSessionPassword(credentials: CredentialsSlice): CredentialsSlice {
  const kept = passwordOf(credentials, credentials.sessionDigest) ?? credentials.passwords.at(-1);
  return withPasswords(credentials, kept === undefined ? [] : [kept]);
}

/** Ends every password. @param isAwaitingLogin the broker asks at login, so that the next login is noticed */
export function endPasswords(credentials: CredentialsSlice, isAwaitingLogin: boolean, nowMs: number): CredentialsSlice {
  const ended = withPasswords({ ...credentials, sessionDigest: undefined }, []);
  return { ...ended, isAwaitingLogin, acceptedFromMs: nowMs };
}

/** Keeps the passwords and ends the relay sessions that were opened with them, even if a shard cannot be told. */
export function endGenerations(credentials: CredentialsSlice): CredentialsSlice {
  let { lastGeneration } = credentials;
  const passwords = credentials.passwords.map((password) => ({ ...password, generation: ++lastGeneration }));
  return { ...credentials, passwords, lastGeneration };
}

export function issue(
  credentials: CredentialsSlice,
  { secretDigest, passwordDigest }: IssuedSecrets,
  nowMs: number,
  marks: PasswordMarks,
): CredentialsSlice {
  const generation = credentials.lastGeneration + 1;
  const password = { digest: passwordDigest, generation, issuedAtMs: nowMs, firstUsedAtMs: null, ...marks };
  const passwords = [...credentials.passwords, password];
  return { ...credentials, secretDigest, passwords, lastGeneration: generation };
}

function withPasswords(credentials: CredentialsSlice, passwords: MessagingPassword[]): CredentialsSlice {
  const ended = credentials.passwords.filter((password) => !passwords.includes(password)).map(({ digest }) => digest);
  if (ended.length === 0) return credentials;
  return { ...credentials, passwords, ended: [...credentials.ended, ...ended].slice(-maxEnded) };
}

/** `matchedDigest`: the stored digest that equals the password's. */
export type Login = { productKey: string; isClientIdRight: boolean; matchedDigest: string | undefined };

/** Counts a refused login; undefined if the login is accepted. */
export function refuseLogin(state: DeviceState, login: Login & { address: string | null }, nowMs: number) {
  const refusal = refusalOf(state, login, nowMs);
  if (refusal === undefined) return undefined;
  const reason = loginRefusalReasonOf(refusal);
  if (reason === undefined) return refused(state, refusal);
  const fact = { status: 'login_refused', reason, address: login.address } as const;
  return { state: countFact(state, fact, nowMs), result: refuse(refusal) };
}

function refusalOf({ credentials, identity }: DeviceState, login: Login, nowMs: number): Refusal | undefined {
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

/** The password has begun a session, at a broker or on a direct connection, which ends the session before. */
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
  const next = closeWindow({ ...state, credentials }, digest, address, nowMs);
  const [before, after] = [awaited, credentials].map(
    ({ passwords }) => passwords.filter(({ isKept }) => isKept).length,
  );
  return before === after ? next : countFact(next, { status: 'credentials', reason: 'contested', address }, nowMs);
}

/** After the first login with a password of a pairing window: nobody else is let in by it. */
export function closeWindow(state: DeviceState, digest: string, address: string | null, nowMs: number): DeviceState {
  const { credentials, ownership } = state;
  const untilMs = passwordOf(credentials, digest)?.windowUntilMs;
  if (untilMs === undefined) return state;
  const isKept = (password: MessagingPassword) => password.digest === digest || password.windowUntilMs !== untilMs;
  const next = { ...state, credentials: withPasswords(credentials, credentials.passwords.filter(isKept)) };
  if (ownership.pairing?.untilMs !== untilMs) return next;
  return note({ ...next, ownership: { ...ownership, pairing: null } }, 'pairing_closed', address, nowMs);
}

/** Ends the relay sessions of credentials that are not valid any more: all if the device is disabled or deleted. */
export function endRelaySessions(state: DeviceState, cause: RevokeCause, { nowMs, effects }: Decision): void {
  const generations = cause === 'credentials_rotated' ? liveGenerations(state.credentials, nowMs) : [];
  const shards = state.subscriptions.map(({ shard }) => shard);
  effects.push({ kind: 'end_relay_sessions', cause, shards, generations });
}

/** A password that has ended by time ends the relay sessions that were opened with it. */
export function endOutdated(state: DeviceState, decision: Decision): DeviceState {
  const { credentials } = state;
  if (nextEndMs(credentials) > decision.nowMs) return state;
  const next = { ...state, credentials: withPasswords(credentials, validPasswords(credentials, decision.nowMs)) };
  endRelaySessions(next, 'credentials_rotated', decision);
  return next;
}
