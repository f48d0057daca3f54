// Which messaging passwords of a device are valid at a moment.
import { describe, expect, it } from 'vitest';
import {
  addPassword,
  firstCredentials,
  noteFirstUse,
  noteSession,
  validPasswords,
  type CredentialsSlice,
  type MessagingPassword,
} from '../../src/domain/device/credentials.ts';

const minuteMs = 60_000;

function credential(digest: string, firstUsedAtMs: number | null = null): MessagingPassword {
  return { digest, issuedAtMs: 0, firstUsedAtMs };
}

function validAt(nowMs: number, ...credentials: MessagingPassword[]): string[] {
  return digestsAt({ ...firstCredentials('secret', 'unused', 0), passwords: credentials }, nowMs);
}

function digestsAt(credentials: CredentialsSlice, nowMs: number): string[] {
  return validPasswords(credentials, nowMs).map(({ digest }) => digest);
}

/** The digests that are kept after activations with these. */
function activated(passwords: MessagingPassword[], nowMs: number, ...digests: string[]): string[] {
  let credentials = { ...firstCredentials('secret', 'unused', 0), passwords };
  for (const passwordDigest of digests) {
    const activation = addPassword(credentials, { secretDigest: 'secret', passwordDigest }, nowMs);
    credentials = { ...activation, passwords: [...activation.passwords] };
  }
  return credentials.passwords.map(({ digest }) => digest);
}

describe('messaging passwords', () => {
  it('stay valid beside a newer one that nobody has used', () => {
    expect(validAt(365 * 24 * 60 * minuteMs, credential('old', 1), credential('lost'))).toEqual(['old', 'lost']);
  });

  it('end ten minutes after a newer one was first used', () => {
    const both = [credential('old', 0), credential('new', minuteMs)];
    expect(validAt(11 * minuteMs - 1, ...both)).toEqual(['old', 'new']);
    expect(validAt(11 * minuteMs, ...both)).toEqual(['new']);
  });

  it('never end by time alone', () => {
    expect(validAt(Number.MAX_SAFE_INTEGER, credential('only', 0))).toEqual(['only']);
  });

  it('are three at most, and the one in use is never the one that goes', () => {
    expect(activated([credential('in use', 5)], 10, 'a', 'b', 'c', 'd')).toEqual(['in use', 'c', 'd']);
  });

  it('are three at most where none was ever used: the newest', () => {
    expect(activated([], 10, 'a', 'b', 'c', 'd')).toEqual(['b', 'c', 'd']);
  });

  it('leave no trace once they have ended', () => {
    const before = [credential('old', 0), credential('new', 0)];
    expect(activated(before, 10 * minuteMs, 'newest')).toEqual(['new', 'newest']);
  });

  it('do not end while the device uses them, whoever activates its serial and takes over its session', () => {
    const logIn = (credentials: CredentialsSlice, digest: string, nowMs: number) => {
      expect(digestsAt(credentials, nowMs)).toContain(digest);
      return noteSession(noteFirstUse(credentials, digest, nowMs), digest, nowMs);
    };
    let credentials = logIn(firstCredentials('secret', 'own', 0), 'own', 1);
    // A stranger activates and logs in again and again, for two hours; the device comes back each time.
    for (let minute = 1; minute < 120; minute++) {
      const passwordDigest = `stranger ${minute}`;
      credentials = addPassword(credentials, { secretDigest: 'secret', passwordDigest }, minute * minuteMs);
      expect(digestsAt(credentials, minute * minuteMs).length).toBeLessThanOrEqual(3);
      credentials = logIn(credentials, passwordDigest, minute * minuteMs + 1);
      credentials = logIn(credentials, 'own', minute * minuteMs + 2);
    }
    // Its session stays open for a day after the newer password was used.
    expect(digestsAt(credentials, 24 * 60 * minuteMs)).toEqual(['own', 'stranger 119']);
  });

  it('end ten minutes after another one took over the session', () => {
    let credentials = noteSession(noteFirstUse(firstCredentials('secret', 'old', 0), 'old', 0), 'old', 0);
    credentials = addPassword(credentials, { secretDigest: 'secret', passwordDigest: 'new' }, minuteMs);
    credentials = noteSession(noteFirstUse(credentials, 'new', minuteMs), 'new', minuteMs);
    expect(digestsAt(credentials, 11 * minuteMs - 1)).toEqual(['old', 'new']);
    expect(digestsAt(credentials, 11 * minuteMs)).toEqual(['new']);
  });
});
