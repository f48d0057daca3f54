// Access tokens: signed JWTs of one narrow form, made and checked by jose. Refresh tokens are opaque secrets, made in
// secrets.ts.
import { decodeProtectedHeader, jwtVerify, SignJWT } from 'jose';
import { JOSEError, JWSSignatureVerificationFailed, JWTClaimValidationFailed, JWTExpired } from 'jose/errors';
import { rememberNewest } from '../domain/newest.ts';
import { credentialRefused, refuse, type Outcome } from '../domain/refusal.ts';

/** The first key signs, every key verifies: put a new one in front, remove the old one after a token's lifetime. */
export type TokenConfig = {
  signingKeys: readonly { kid: string; secret: string }[];
  accessTokenSeconds: number;
};

export type AccessToken = { userId: number; sessionId: string; expiresAtMs: number };

const algorithm = 'HS256';
// RFC 9068 2.1: the type keeps a token made for another purpose from being taken for an access token.
const type = 'at+jwt';
const issuer = 'latchwork';
const audience = 'latchwork-api';
const maxTokenBytes = 4096;

export async function signAccessToken(config: TokenConfig, userId: number, sessionId: string): Promise<string> {
  const [current] = config.signingKeys;
  if (current === undefined) throw new Error('no signing key');
  const issuedAt = Math.floor(Date.now() / 1000);
  return new SignJWT({ sid: sessionId })
    .setProtectedHeader({ alg: algorithm, typ: type, kid: current.kid })
    .setIssuer(issuer)
    .setAudience(audience)
    .setSubject(String(userId))
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + config.accessTokenSeconds)
    .sign(new TextEncoder().encode(current.secret));
}

// Tokens that were verified, by their text, for each list of keys: a client sends the same token with every
// request. Only tokens with the right signature get in here.
const verifiedByKeys = new WeakMap<TokenConfig['signingKeys'], Map<string, AccessToken>>();
const maxVerified = 1_000;

/** Reads no storage: the tokens of an ended session are good until they expire. */
export async function verifyAccessToken(config: TokenConfig, token: string): Promise<Outcome<AccessToken>> {
  const verified = verifiedByKeys.get(config.signingKeys) ?? new Map<string, AccessToken>();
  verifiedByKeys.set(config.signingKeys, verified);
  const earlier = verified.get(token);
  if (earlier !== undefined && earlier.expiresAtMs > Date.now()) return { ok: true, value: earlier };
  const access = await verifyAnew(config, token);
  if (access.ok) rememberNewest(verified, token, access.value, maxVerified);
  else verified.delete(token);
  return access;
}

async function verifyAnew(config: TokenConfig, token: string): Promise<Outcome<AccessToken>> {
  if (token.length > maxTokenBytes) return refuse(credentialRefused('access_token', 'malformed'));
  try {
    const { kid } = decodeProtectedHeader(token);
    const key = config.signingKeys.find((candidate) => candidate.kid === kid);
    if (key === undefined) return refuse(credentialRefused('access_token', 'wrong'));
    const { payload } = await jwtVerify(token, new TextEncoder().encode(key.secret), {
      algorithms: [algorithm],
      typ: type,
      issuer,
      audience,
      requiredClaims: ['sub', 'iat', 'exp'],
    });
    const { sub = '', exp = 0, sid } = payload;
    if (!/^[1-9]\d{0,14}$/.test(sub) || typeof sid !== 'string')
      return refuse(credentialRefused('access_token', 'malformed'));
    return { ok: true, value: { userId: Number(sub), sessionId: sid, expiresAtMs: exp * 1000 } };
  } catch (error) {
    if (error instanceof JWTExpired) return refuse(credentialRefused('access_token', 'expired'));
    if (error instanceof JWSSignatureVerificationFailed || error instanceof JWTClaimValidationFailed) {
      return refuse(credentialRefused('access_token', 'wrong'));
    }
    // Other errors of jose, and the TypeErrors that it throws for a header it cannot decode.
    if (error instanceof JOSEError || error instanceof TypeError)
      return refuse(credentialRefused('access_token', 'malformed'));
    throw error;
  }
}
