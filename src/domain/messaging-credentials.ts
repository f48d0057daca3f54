// Which messaging passwords of a device are valid (decisions, Activation): a device never renews them, and an answer
// may be lost or late, so older ones live on for a while. Holds digests only.

export type MessagingCredential = { digest: string; issuedAtMs: number; firstUsedAtMs: number | null };

const overlapMs = 10 * 60_000;
const maxValid = 3;

/** Valid until ten minutes after a newer one was first used. Newest last. */
export function validCredentials(credentials: readonly MessagingCredential[], nowMs: number): MessagingCredential[] {
  return credentials.filter((_, index) =>
    credentials
      .slice(index + 1)
      .every((newer) => newer.firstUsedAtMs === null || newer.firstUsedAtMs + overlapMs > nowMs),
  );
}

/**
 * Adds a new one. Of more than three, the oldest goes that is not the one in use: a device whose activations keep
 * getting lost must not lose the password it lives on.
 */
export function addCredential(
  credentials: readonly MessagingCredential[],
  digest: string,
  nowMs: number,
): MessagingCredential[] {
  const kept = validCredentials(credentials, nowMs);
  kept.push({ digest, issuedAtMs: nowMs, firstUsedAtMs: null });
  if (kept.length <= maxValid) return kept;
  const inUse = kept.findLast((credential) => credential.firstUsedAtMs !== null);
  const dropped = kept.find((credential) => credential !== inUse);
  return kept.filter((credential) => credential !== dropped);
}
