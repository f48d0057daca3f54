// Password hashes: scrypt in PHC string form. Nothing else runs in an isolate during a hash; pacing/password-queue.ts says
// when one may run. Holds no rules about passwords or users.
import { scrypt, timingSafeEqual } from 'node:crypto';
import { decodeBase64 } from 'hono/utils/encode';

/** N = 2^ln, as OWASP recommends. Workers refuse N*r*p above 2^20, which a local run does not show (decision: accounts). */
export const scryptParameters = { ln: 14, r: 8, p: 5 } as const;

const saltBytes = 16;
const hashBytes = 32;
const prefix = '$scrypt$ln=14,r=8,p=5$';

/** Checked if there is no user, so that an unknown account takes as long as a wrong password. */
export const dummyHash = `${prefix}bm9ib2R5J3Mgc2FsdCEhIQ$bm9ib2R5J3MgaGFzaDogbm8gcGFzc3dvcmQgbWFrZXM`;

export async function hashPassword(password: string): Promise<string> {
  const salt = crypto.getRandomValues(new Uint8Array(saltBytes));
  return `${prefix}${encode(salt)}$${encode(await derive(password, salt))}`;
}

export async function checkPassword(password: string, phc: string): Promise<boolean> {
  const [, salt, hash] = /^([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$/.exec(phc.replace(prefix, '')) ?? [];
  if (!phc.startsWith(prefix) || salt === undefined || hash === undefined) return false;
  return timingSafeEqual(await derive(password, decodeBase64(salt)), decodeBase64(hash));
}

function derive(password: string, salt: Uint8Array): Promise<Uint8Array> {
  const { ln, r, p } = scryptParameters;
  return new Promise((resolve, reject) => {
    // One password typed on two keyboards may differ in composition; RFC 8265 4.2.1 asks for NFC.
    scrypt(password.normalize('NFC'), salt, hashBytes, { N: 2 ** ln, r, p }, (error, key) => {
      if (error === null) resolve(key);
      else reject(error);
    });
  });
}

function encode(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/=+$/, '');
}
