// Password hashes: scrypt in PHC string form. Holds no rules about passwords or users.
import { scrypt, timingSafeEqual } from 'node:crypto';

/** N = 2^ln. Workers refuse N*r*p above 2^20, which a local run does not show (decision: accounts). */
export const scryptParameters = { ln: 14, r: 8, p: 5 } as const;

const saltBytes = 16;
const hashBytes = 32;
const phcPattern = /^\$scrypt\$ln=(\d+),r=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

/** Checked where there is no user, so that an unknown account takes as long as a wrong password. */
export const dummyHash = '$scrypt$ln=14,r=8,p=5$bm9ib2R5J3Mgc2FsdCEhIQ$bm9ib2R5J3MgaGFzaDogbm8gcGFzc3dvcmQgbWFrZXM';

type Parameters = { ln: number; r: number; p: number };

export async function hashPassword(password: string): Promise<string> {
  const salt = crypto.getRandomValues(new Uint8Array(saltBytes));
  const hash = await derive(password, salt, scryptParameters, hashBytes);
  const { ln, r, p } = scryptParameters;
  return `$scrypt$ln=${ln},r=${r},p=${p}$${encode(salt)}$${encode(hash)}`;
}

/** `isOutdated`: made with other parameters than today's, to be replaced while the password is at hand. */
export async function checkPassword(password: string, phc: string): Promise<{ isRight: boolean; isOutdated: boolean }> {
  const [, ln, r, p, salt, hash] = phcPattern.exec(phc) ?? [];
  if (salt === undefined || hash === undefined) return { isRight: false, isOutdated: false };
  const parameters = { ln: Number(ln), r: Number(r), p: Number(p) };
  const expected = decode(hash);
  const actual = await derive(password, decode(salt), parameters, expected.byteLength);
  return {
    isRight: timingSafeEqual(actual, expected),
    isOutdated: (['ln', 'r', 'p'] as const).some((name) => parameters[name] !== scryptParameters[name]),
  };
}

function derive(password: string, salt: Uint8Array, { ln, r, p }: Parameters, length: number): Promise<Uint8Array> {
  // One password typed on two keyboards may differ in composition; RFC 8265 4.2.1 asks for NFC.
  return new Promise((resolve, reject) => {
    scrypt(password.normalize('NFC'), salt, length, { N: 2 ** ln, r, p }, (error, key) => {
      if (error === null) resolve(key);
      else reject(error);
    });
  });
}

function encode(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/=+$/, '');
}

function decode(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
