// Which messaging passwords of a device are valid at a moment.
import { describe, expect, it } from 'vitest';
import {
  addPassword,
  firstCredentials,
  validPasswords,
  type MessagingPassword,
} from '../../src/domain/device/credentials.ts';

const minuteMs = 60_000;

function credential(digest: string, firstUsedAtMs: number | null = null): MessagingPassword {
  return { digest, issuedAtMs: 0, firstUsedAtMs };
}

function validAt(nowMs: number, ...credentials: MessagingPassword[]): string[] {
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
});
