// Slice: which messaging passwords are valid (decision: activation). A device never renews its password, and an answer
// may be lost or late, so that older ones stay valid for a while. Holds digests only.

export type MessagingPassword = { digest: string; issuedAtMs: number; firstUsedAtMs: number | null };

export type CredentialsSlice = {
  secretDigest: string;
  /** Newest last. */
  passwords: readonly MessagingPassword[];
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

/** Valid until ten minutes after a newer one was first used. */
export function validPasswords(passwords: readonly MessagingPassword[], nowMs: number): MessagingPassword[] {
  return passwords.filter((_, index) =>
    passwords
      .slice(index + 1)
      .every((newer) => newer.firstUsedAtMs === null || newer.firstUsedAtMs + overlapMs > nowMs),
  );
}

/**
 * A further activation. Of more than three passwords, the oldest ends that is not the one in use: a device whose
 * activations keep getting lost keeps the password it uses.
 */
export function addPassword(
  credentials: CredentialsSlice,
  { secretDigest, passwordDigest }: { secretDigest: string; passwordDigest: string },
  nowMs: number,
): CredentialsSlice {
  const kept = validPasswords(credentials.passwords, nowMs);
  kept.push({ digest: passwordDigest, issuedAtMs: nowMs, firstUsedAtMs: null });
  const inUse = kept.findLast(({ firstUsedAtMs }) => firstUsedAtMs !== null);
  const dropped = kept.length <= maxValid ? undefined : kept.find((password) => password !== inUse);
  return withPasswords(
    { ...credentials, secretDigest },
    kept.filter((password) => password !== dropped),
  );
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
  const replaced = withPasswords(credentials, [password]);
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
