// Refresh tokens of one session: what each of them is good for. Only digests come here. A session keeps the digest of its
// current token and, for a while, the digests of the tokens before it; any other token that names it was used before.

/** A token that was exchanged. Its successor follows from the token itself and `salt`, which alone tells nothing. */
export type Rotation = { digest: string; salt: string; atMs: number };

/** Phones refresh twice at once and lose answers: within this time a second use is an accident, later it is a theft. */
const graceMs = 30_000;
const maxRotations = 8;

/** `repeated`: the token was exchanged moments ago; `salts` lead from it to the current one. */
type Judgement = { kind: 'current' } | { kind: 'repeated'; salts: string[] } | { kind: 'reused' };

export function judgeToken(
  session: { digest: string; rotations: readonly Rotation[] },
  isToken: (digest: string) => boolean,
  nowMs: number,
): Judgement {
  if (isToken(session.digest)) return { kind: 'current' };
  const later = session.rotations.slice(session.rotations.findLastIndex(({ digest }) => isToken(digest)));
  const isRecent = later[0] !== undefined && isToken(later[0].digest) && nowMs - later[0].atMs <= graceMs;
  return isRecent ? { kind: 'repeated', salts: later.map(({ salt }) => salt) } : { kind: 'reused' };
}

/** Keeps those rotations that can still excuse a repeated token. */
export function addRotation(rotations: readonly Rotation[], added: Rotation): Rotation[] {
  return [...rotations.filter(({ atMs }) => added.atMs - atMs <= graceMs), added].slice(-maxRotations);
}
