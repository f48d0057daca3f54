// Access tokens: signed JWTs of one narrow form, made and checked by jose. Knows no refresh tokens (they are opaque
// secrets, secrets.ts) and never says why a token was refused.
import { decodeProtectedHeader, jwtVerify, SignJWT, type CryptoKey } from 'jose';

/** The first key signs, every key verifies: a new secret is put in front and the old one removed after a lifetime. */
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
    .sign(await importKey(current.secret));
}

/** What a valid access token says; undefined for everything else. Reads no storage: revocation waits for the expiry. */
export async function verifyAccessToken(config: TokenConfig, token: string): Promise<AccessToken | undefined> {
  if (token.length > maxTokenBytes) return undefined;
  try {
    const { kid } = decodeProtectedHeader(token);
    const key = config.signingKeys.find((candidate) => candidate.kid === kid);
    if (key === undefined) return undefined;
    const { payload } = await jwtVerify(token, await importKey(key.secret), {
      algorithms: [algorithm],
      typ: type,
      issuer,
      audience,
      requiredClaims: ['sub', 'iat', 'exp'],
    });
    const { sub = '', exp = 0, sid } = payload;
    if (!/^[1-9]\d{0,14}$/.test(sub) || typeof sid !== 'string') return undefined;
    return { userId: Number(sub), sessionId: sid, expiresAtMs: exp * 1000 };
  } catch {
    // jose and decodeProtectedHeader throw for each way a token can be wrong; all of them read the same outside.
    return undefined;
  }
}

// Keys, not promises of keys: a promise made in one request must not be awaited in another (workerd).
const importedKeys = new Map<string, CryptoKey>();

async function importKey(secret: string): Promise<CryptoKey> {
  const known = importedKeys.get(secret);
  if (known !== undefined) return known;
  const bytes = new TextEncoder().encode(secret);
  const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify']);
  importedKeys.set(secret, key);
  return key;
}
