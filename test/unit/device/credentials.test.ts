// Which messaging passwords of a device are valid at a moment.
import { describe, expect, it } from 'vitest';
import {
  addPassword,
  credentialsSlice,
  issue,
  liveGenerations,
  nextEndMs,
  noteSession,
  noteUse,
  passwordsInUsePerDevice,
  validPasswords,
  type CredentialsSlice,
  type MessagingPassword,
} from '../../../src/domain/device/ownership/credentials.ts';

const minuteMs = 60_000;
const maxInUse = passwordsInUsePerDevice;

function credential(digest: string, firstUsedAtMs: number | null = null): MessagingPassword {
  return { digest, generation: 0, issuedAtMs: 0, firstUsedAtMs };
}

function first(passwordDigest: string): CredentialsSlice {
  return issue(credentialsSlice.initial, { secretDigest: 'secret', passwordDigest }, 0, {});
}

function validAt(nowMs: number, ...credentials: MessagingPassword[]): string[] {
  return digestsAt({ ...first('unused'), passwords: credentials }, nowMs);
}

function digestsAt(credentials: CredentialsSlice, nowMs: number): string[] {
  return validPasswords(credentials, nowMs).map(({ digest }) => digest);
}

/** A further activation: by a stranger who knows the serial, or, with `isUnproven` false, with proof. */
function activate(credentials: CredentialsSlice, passwordDigest: string, nowMs: number, isUnproven = true, from = '') {
  const issued = { secretDigest: 'secret', passwordDigest };
  const added = addPassword(credentials, issued, nowMs, { isUnproven, network: from });
  if ('roomAtMs' in added) throw new Error(`no room until ${added.roomAtMs}`);
  return added;
}

function logIn(credentials: CredentialsSlice, digest: string, nowMs: number, wasOpen = true) {
  expect(digestsAt(credentials, nowMs)).toContain(digest);
  return noteSession(noteUse(credentials, digest, nowMs), digest, wasOpen, nowMs);
}

/** The digests that are kept after activations with these. */
function activated(passwords: MessagingPassword[], nowMs: number, ...digests: string[]): string[] {
  let credentials: CredentialsSlice = { ...first('unused'), passwords };
  for (const digest of digests) credentials = activate(credentials, digest, nowMs);
  return credentials.passwords.map(({ digest }) => digest);
}

describe('messaging passwords', () => {
  it('never end by time alone, nor by a newer one that nobody has used', () => {
    expect(validAt(Number.MAX_SAFE_INTEGER, credential('only', 0))).toEqual(['only']);
    expect(validAt(365 * 24 * 60 * minuteMs, credential('old', 1), credential('lost'))).toEqual(['old', 'lost']);
  });

  it('end ten minutes after a newer one was first used', () => {
    const both = [credential('old', 0), credential('new', minuteMs)];
    expect(validAt(11 * minuteMs - 1, ...both)).toEqual(['old', 'new']);
    expect(validAt(11 * minuteMs, ...both)).toEqual(['new']);
  });

  it('are three at most: the newest, and the one in use', () => {
    expect(activated([credential('in use', 5)], 10, 'a', 'b', 'c', 'd')).toEqual(['in use', 'c', 'd']);
    expect(activated([], 10, 'a', 'b', 'c', 'd')).toEqual(['b', 'c', 'd']);
  });

  it('leave no trace once they have ended', () => {
    const before = [credential('old', 0), credential('new', 0)];
    expect(activated(before, 10 * minuteMs, 'newest')).toEqual(['new', 'newest']);
  });

  it('do not end while the device uses them, even if a stranger activates its serial and takes over its session', () => {
    let credentials = logIn(first('own'), 'own', 1);
    // A stranger activates and logs in twice a quarter of an hour, for a day; the device comes back each time.
    for (let minute = 1; minute < 24 * 60; minute += 7) {
      credentials = activate(credentials, `stranger ${minute}`, minute * minuteMs);
      expect(digestsAt(credentials, minute * minuteMs).length).toBeLessThanOrEqual(4);
      credentials = logIn(credentials, `stranger ${minute}`, minute * minuteMs + 1);
      credentials = logIn(credentials, 'own', minute * minuteMs + 2);
    }
    expect(digestsAt(credentials, 48 * 60 * minuteMs)).toContain('own');
  });

  it('do not end by an unproven one that took over their open session, however long the device stays away', () => {
    const taken = (isUnproven: boolean, wasOpen: boolean) => {
      const credentials = activate(logIn(first('own'), 'own', 0), 'other', minuteMs, isUnproven);
      return digestsAt(logIn(credentials, 'other', minuteMs, wasOpen), 365 * 24 * 60 * minuteMs);
    };
    expect(taken(true, true)).toEqual(['own', 'other']);
    expect(taken(true, false), 'its session was over').toEqual(['other']);
    expect(taken(false, true), 'the owner let the other one be issued').toEqual(['other']);
  });

  it('end ten minutes after another one took over the session', () => {
    let credentials = logIn(first('old'), 'old', 0);
    credentials = logIn(activate(credentials, 'new', minuteMs), 'new', minuteMs, false);
    expect(digestsAt(credentials, 11 * minuteMs - 1)).toEqual(['old', 'new']);
    expect(digestsAt(credentials, 11 * minuteMs)).toEqual(['new']);
  });

  it('that were used within the last ten minutes are never evicted, at the broker or at the relay', () => {
    let credentials = logIn(first('own'), 'own', 0);
    credentials = noteUse(activate(credentials, 'at the relay', 0), 'at the relay', 0);
    for (const digest of ['a', 'b', 'c', 'd']) credentials = activate(credentials, digest, 9 * minuteMs);
    expect(digestsAt(credentials, 9 * minuteMs)).toEqual(['own', 'at the relay', 'd']);
    credentials = activate(activate(credentials, 'e', 12 * minuteMs), 'f', 12 * minuteMs);
    expect(digestsAt(credentials, 12 * minuteMs)).toEqual(['own', 'e', 'f']);
  });
});

describe('messaging passwords that a stranger keeps in use', () => {
  const nowMs = maxInUse * 1000;
  /** Activations with a login each, beside the password of the device. */
  const occupied = (networkOf: (number: number) => string) => {
    let credentials = logIn(first('own'), 'own', 0);
    for (let number = 1; number < maxInUse; number++) {
      credentials = activate(credentials, String(number), number * 1000, true, networkOf(number));
      credentials = logIn(credentials, String(number), number * 1000);
    }
    return credentials;
  };
  const isRefused = (credentials: CredentialsSlice, network: string) =>
    'roomAtMs' in
    addPassword(credentials, { secretDigest: '', passwordDigest: 'x' }, nowMs, { isUnproven: true, network });

  it('do not keep the device out of its own activation: the oldest of the network with most makes room', () => {
    const credentials = occupied(() => 'of the stranger');
    expect(isRefused(credentials, 'of the stranger')).toBe(true);
    const again = logIn(activate(credentials, 'again', nowMs, true, 'of the device'), 'again', nowMs);
    expect(digestsAt(again, nowMs)).toEqual(['own', '2', '3', '4', '5', '6', '7', '8', '9', 'again']);
    expect(isRefused(again, 'of the stranger'), 'does not push it out in turn').toBe(true);
  });

  it('make room for an activation with a proof, from however many networks they came', () => {
    const credentials = occupied((number) => `network ${number}`);
    expect(isRefused(credentials, 'one more')).toBe(true);
    expect(digestsAt(activate(credentials, 'proven', nowMs, false), nowMs)).toEqual(
      expect.arrayContaining(['own', 'proven', '9']),
    );
  });
});

it('generations are new with each password, and end with it: by eviction and by time', () => {
  let credentials = activate(first('a'), 'b', 0);
  expect(liveGenerations(credentials, 0)).toEqual([1, 2]);
  credentials = activate(activate(credentials, 'c', 0), 'd', 0);
  expect(liveGenerations(credentials, 0), 'a was evicted').toEqual([2, 3, 4]);
  credentials = logIn(credentials, 'd', minuteMs);
  expect(nextEndMs(credentials)).toBe(11 * minuteMs);
  expect(liveGenerations(credentials, 11 * minuteMs)).toEqual([4]);
  const passwords = validPasswords(credentials, 11 * minuteMs);
  expect(nextEndMs({ ...credentials, passwords })).toBe(Infinity);
});
