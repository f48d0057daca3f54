// Random identifiers and secrets, their digests, and comparison in constant time. Knows no passwords (password.ts)
// and no signed tokens (tokens.ts).

const base62 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const crockford = '0123456789abcdefghjkmnpqrstvwxyz';

/** A secret of `length` base62 characters behind its prefix form (contract 2.3, 2.7). */
export function createSecret(
  prefix: 'sk_' | 'tk_' | 'ak_' | 'dt_' | 'pr_' | 'pm_' | 'ev_' | '',
  length: number,
): string {
  return prefix + randomText(base62, length);
}

/** An API key, its parts in whatever order. Undefined for what nobody can have been given: it costs no database read. */
export function findKeyPair(parts: readonly string[]): { keyId: string; secret: string } | undefined {
  const keyId = parts.find((part) => /^ak_[A-Za-z0-9]{20}$/.test(part));
  const secret = parts.find((part) => /^sk_[A-Za-z0-9]{40}$/.test(part));
  return keyId === undefined || secret === undefined ? undefined : { keyId, secret };
}

/** An identifier of Crockford base32 in lower case: 8 characters are 40 bits (decision: devices). */
export function createId(prefix: 'dev_' | 'prj_' | '', length: number): string {
  return prefix + randomText(crockford, length);
}

/** 43 base62 characters that follow from a secret and a salt, and tell nothing without both of them. */
export async function deriveSecret(secret: string, salt: string): Promise<string> {
  return deriveDigits(await importMacKey(secret), salt, 43);
}

/** 154 bits. */
export const codeLength = 26;

/** A code over `parts` by the first secret. Parts hold no line break; the first names the use of the secret. */
export async function certify(secrets: readonly string[], parts: readonly string[]): Promise<string> {
  const [current] = await importMacKeys(secrets);
  if (current === undefined) throw new Error('no messaging secret');
  return deriveDigits(current, parts.join('\n'), codeLength);
}

/** Whether one of the secrets made this code over `parts`. */
export async function isCodeOf(secrets: readonly string[], parts: readonly string[], code: string): Promise<boolean> {
  const keys = await importMacKeys(secrets);
  const codes = await Promise.all(keys.map((key) => deriveDigits(key, parts.join('\n'), codeLength)));
  return codes.map((right) => isEqualDigest(right, code)).includes(true);
}

/** The secret with its code behind it, so that an invented one is refused before a row is read. */
export async function certifySecret(secrets: readonly string[], parts: readonly string[], secret: string) {
  return secret + (await certify(secrets, [...parts, secret]));
}

/** The secret without its code; undefined for an invented one, and for one whose key was removed. */
export async function openCertified(
  secrets: readonly string[],
  parts: readonly string[],
  shown: string,
): Promise<string | undefined> {
  const secret = shown.slice(0, -codeLength);
  return (await isCodeOf(secrets, [...parts, secret], shown.slice(-codeLength))) ? secret : undefined;
}

function importMacKey(secret: string): Promise<CryptoKey> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  return crypto.subtle.importKey('raw', new TextEncoder().encode(secret), algorithm, false, ['sign']);
}

/** Keys of configured secrets, which do not change while an isolate lives. */
const macKeysByList = new WeakMap<readonly string[], Promise<CryptoKey[]>>();

function importMacKeys(secrets: readonly string[]): Promise<CryptoKey[]> {
  const keys = macKeysByList.get(secrets) ?? Promise.all(secrets.map(importMacKey));
  macKeysByList.set(secrets, keys);
  return keys;
}

/** The last `length` base62 digits of an HMAC-SHA-256. */
async function deriveDigits(key: CryptoKey, text: string, length: number): Promise<string> {
  const code = new Uint8Array(await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(text)));
  let number = BigInt(`0x${code.toHex()}`);
  let digits = '';
  while (digits.length < length) {
    digits = base62.charAt(Number(number % 62n)) + digits;
    number /= 62n;
  }
  return digits;
}

/** SHA-256 in lower-case hex, for secrets that are random; passwords are hashed with scrypt. */
export async function digestOf(secret: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(secret)));
  return digest.toHex();
}

/** In time that does not depend on how much of them is equal. */
export function isEqualDigest(one: string, other: string): boolean {
  const encoder = new TextEncoder();
  const [left, right] = [encoder.encode(one), encoder.encode(other)];
  // timingSafeEqual throws on unequal lengths; digests of one kind always have the same.
  return left.byteLength === right.byteLength && crypto.subtle.timingSafeEqual(left, right);
}

/** Digests of configured secrets, which do not change while an isolate lives. */
const digestsByList = new WeakMap<readonly string[], string[]>();

/** Whether `secret` is one of the secrets that are live (two during a rotation). */
export async function isOneOf(secret: string, live: readonly string[]): Promise<boolean> {
  const digest = await digestOf(secret);
  const liveDigests = digestsByList.get(live) ?? (await Promise.all(live.map(digestOf)));
  digestsByList.set(live, liveDigests);
  return liveDigests.map((candidate) => isEqualDigest(candidate, digest)).includes(true);
}

function randomText(alphabet: string, length: number): string {
  // Bytes above the largest multiple of the alphabet's length would favour its first letters.
  const limit = 256 - (256 % alphabet.length);
  let text = '';
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      if (byte < limit && text.length < length) text += alphabet.charAt(byte % alphabet.length);
    }
  }
  return text;
}
