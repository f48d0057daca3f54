// Password hashes: scrypt in steps, in PHC string form. Nothing else runs in an isolate during a step: one is short, and the
// caller says what happens between two of them. Holds no rules about passwords or users.
import { scrypt, timingSafeEqual } from 'node:crypto';

/**
 * N = 2^ln, and `steps` of them one after the other, each salted with the salt and what the step before gave: as much work
 * and memory as OWASP's N = 2^13, r = 8, p = 10. Workers refuse N*r*p above 2^20, which a local run does not show (decision:
 * accounts).
 */
export const scryptParameters = { ln: 13, r: 8, p: 1, steps: 10 } as const;

const saltBytes = 16;
const hashBytes = 32;
// Without steps: scrypt as everybody knows it, which is one step.
const phcPattern = /^\$scrypt(?:-steps)?\$ln=(\d+),r=(\d+),p=(\d+)(?:,t=(\d+))?\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

/** Checked where there is no user, so that an unknown account takes as long as a wrong password. */
export const dummyHash =
  '$scrypt-steps$ln=13,r=8,p=1,t=10$bm9ib2R5J3Mgc2FsdCEhIQ$bm9ib2R5J3MgaGFzaDogbm8gcGFzc3dvcmQgbWFrZXM';

type Parameters = { ln: number; r: number; p: number; steps: number };
/** Between two steps. */
export type Pause = () => Promise<unknown>;

export async function hashPassword(password: string, pause: Pause): Promise<string> {
  const salt = crypto.getRandomValues(new Uint8Array(saltBytes));
  const hash = await derive(password, salt, scryptParameters, hashBytes, pause);
  const { ln, r, p, steps } = scryptParameters;
  return `$scrypt-steps$ln=${ln},r=${r},p=${p},t=${steps}$${encode(salt)}$${encode(hash)}`;
}

/** `isOutdated`: made with other parameters than today's, to be replaced while the password is at hand. */
export async function checkPassword(
  password: string,
  phc: string,
  pause: Pause,
): Promise<{ isRight: boolean; isOutdated: boolean }> {
  const [, ln, r, p, steps = '1', salt, hash] = phcPattern.exec(phc) ?? [];
  if (salt === undefined || hash === undefined) return { isRight: false, isOutdated: false };
  const parameters = { ln: Number(ln), r: Number(r), p: Number(p), steps: Number(steps) };
  const expected = decode(hash);
  const actual = await derive(password, decode(salt), parameters, expected.byteLength, pause);
  return {
    isRight: timingSafeEqual(actual, expected),
    isOutdated: (['ln', 'r', 'p', 'steps'] as const).some((name) => parameters[name] !== scryptParameters[name]),
  };
}

async function derive(
  password: string,
  salt: Uint8Array,
  parameters: Parameters,
  length: number,
  pause: Pause,
): Promise<Uint8Array> {
  // One password typed on two keyboards may differ in composition; RFC 8265 4.2.1 asks for NFC.
  const normal = password.normalize('NFC');
  let key: Uint8Array = new Uint8Array(0);
  // A hash with fewer steps has as many pauses: the time that it takes does not tell how an account's password is stored.
  for (let step = 0; step < Math.max(parameters.steps, scryptParameters.steps); step += 1) {
    if (step > 0) await pause();
    if (step < parameters.steps) key = await deriveStep(normal, concat(salt, key), parameters, length);
  }
  return key;
}

function deriveStep(password: string, salt: Uint8Array, { ln, r, p }: Parameters, length: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    scrypt(password, salt, length, { N: 2 ** ln, r, p }, (error, key) => {
      if (error === null) resolve(key);
      else reject(error);
    });
  });
}

function concat(one: Uint8Array, other: Uint8Array): Uint8Array {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

function encode(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/=+$/, '');
}

function decode(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
