// Slice: which messaging passwords are valid (decision: activation). A device never renews its password, and an answer
// may be lost or late, so that older ones stay valid for a while. Holds digests only.

export type MessagingPassword = {
  digest: string;
  issuedAtMs: number;
  firstUsedAtMs: number | null;
  /** When another password took over the device's session at the broker; absent where none did. */
  replacedAtMs?: number;
};

export type CredentialsSlice = {
  secretDigest: string;
  /** Newest last. */
  passwords: readonly MessagingPassword[];
  /** The password of the last login at the broker; undefined before the first. */
  sessionDigest?: string | undefined;
  /** Digests of the last passwords that ended, to tell a revoked password from a wrong one. */
  ended: readonly string[];
  /** How often relay sessions were ended, with all passwords or while disabled: one that signed in before is over. */
  revocations: number;
  /** Passwords were revoked and no login has come since: what arrives is not from the device's new session. */
  isAwaitingLogin: boolean;
  /** Messages received before belong to a session whose password was revoked. */
  acceptedFromMs: number;
};

const overlapMs = 10 * 60_000;
const maxValid = 3;
const maxEnded = 4;

export function firstCredentials(secretDigest: string, passwordDigest: string, nowMs: number): CredentialsSlice {
  const passwords = [{ digest: passwordDigest, issuedAtMs: nowMs, firstUsedAtMs: null }];
  return { secretDigest, passwords, ended: [], revocations: 0, isAwaitingLogin: false, acceptedFromMs: 0 };
}

/** Valid until ten minutes after a newer one was first used, and for as long as it is in use. */
export function validPasswords(credentials: CredentialsSlice, nowMs: number): MessagingPassword[] {
  const { passwords } = credentials;
  return passwords.filter(
    (password, index) =>
      isInUse(credentials, password, nowMs) ||
      passwords
        .slice(index + 1)
        .every((newer) => newer.firstUsedAtMs === null || newer.firstUsedAtMs + overlapMs > nowMs),
  );
}

/**
 * In use: the password of the last login at the broker, and one that another replaced there in the last ten minutes.
 * Anybody can activate a known serial and take over the session; the device must be able to come back.
 */
function isInUse({ passwords, sessionDigest }: CredentialsSlice, password: MessagingPassword, nowMs: number): boolean {
  const digest = sessionDigest ?? passwords.findLast(({ firstUsedAtMs }) => firstUsedAtMs !== null)?.digest;
  return password.digest === digest || (password.replacedAtMs ?? -Infinity) + overlapMs > nowMs;
}

/**
 * A further activation. Of more than three passwords, the oldest ends that is not in use: a device whose activations keep
 * getting lost keeps the password it uses. Where all are in use, the first ones stay, and the session's.
 */
export function addPassword(
  credentials: CredentialsSlice,
  { secretDigest, passwordDigest }: { secretDigest: string; passwordDigest: string },
  nowMs: number,
): CredentialsSlice {
  const valid = validPasswords(credentials, nowMs);
  const dropped =
    valid.length < maxValid
      ? undefined
      : (valid.find((password) => !isInUse(credentials, password, nowMs)) ??
        valid.findLast(({ digest }) => digest !== credentials.sessionDigest));
  const kept = valid.filter((password) => password !== dropped);
  const added = { digest: passwordDigest, issuedAtMs: nowMs, firstUsedAtMs: null };
  return withPasswords({ ...credentials, secretDigest }, [...kept, added]);
}

/** A login at the broker, which ends the session that was there. */
export function noteSession(credentials: CredentialsSlice, digest: string, nowMs: number): CredentialsSlice {
  const { sessionDigest } = credentials;
  if (digest === sessionDigest) return credentials;
  const passwords = credentials.passwords.map((one) =>
    one.digest === sessionDigest ? { ...one, replacedAtMs: nowMs } : one,
  );
  return { ...credentials, passwords, sessionDigest: digest };
}

export function noteFirstUse(credentials: CredentialsSlice, digest: string, nowMs: number): CredentialsSlice {
  const isUnused = credentials.passwords.some((one) => one.digest === digest && one.firstUsedAtMs === null);
  if (!isUnused) return credentials;
  const passwords = credentials.passwords.map((one) =>
    one.digest === digest ? { ...one, firstUsedAtMs: nowMs } : one,
  );
  return { ...credentials, passwords };
}

/** Ends every password but the new one. `isAwaitingLogin`: the broker asks at login, so that the next one is noticed. */
export function replacePasswords(
  credentials: CredentialsSlice,
  passwordDigest: string,
  isAwaitingLogin: boolean,
  nowMs: number,
): CredentialsSlice {
  const { revocations } = credentials;
  const password = { digest: passwordDigest, issuedAtMs: nowMs, firstUsedAtMs: null };
  const replaced = withPasswords({ ...credentials, sessionDigest: undefined }, [password]);
  return { ...replaced, revocations: revocations + 1, isAwaitingLogin, acceptedFromMs: nowMs };
}

/** A relay session from before the device was disabled is over, also where its shard missed that. */
export function noteRevocation(credentials: CredentialsSlice): CredentialsSlice {
  return { ...credentials, revocations: credentials.revocations + 1 };
}

function withPasswords(credentials: CredentialsSlice, passwords: MessagingPassword[]): CredentialsSlice {
  const ended = credentials.passwords.filter((one) => !passwords.includes(one)).map(({ digest }) => digest);
  return { ...credentials, passwords, ended: [...credentials.ended, ...ended].slice(-maxEnded) };
}
