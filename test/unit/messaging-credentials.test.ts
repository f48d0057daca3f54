// Which messaging passwords of a device are valid at a moment.
import { describe, expect, it } from 'vitest';
import { addCredential, validCredentials, type MessagingCredential } from '../../src/domain/messaging-credentials.ts';

const minuteMs = 60_000;

function credential(digest: string, firstUsedAtMs: number | null = null): MessagingCredential {
  return { digest, issuedAtMs: 0, firstUsedAtMs };
}

function validAt(nowMs: number, ...credentials: MessagingCredential[]): string[] {
  return validCredentials(credentials, nowMs).map(({ digest }) => digest);
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
    let credentials = [credential('in use', 5)];
    for (const digest of ['a', 'b', 'c', 'd']) credentials = addCredential(credentials, digest, 10);
    expect(credentials.map(({ digest }) => digest)).toEqual(['in use', 'c', 'd']);
  });

  it('are three at most where none was ever used: the newest', () => {
    let credentials: MessagingCredential[] = [];
    for (const digest of ['a', 'b', 'c', 'd']) credentials = addCredential(credentials, digest, 10);
    expect(credentials.map(({ digest }) => digest)).toEqual(['b', 'c', 'd']);
  });

  it('leave no trace once they have ended', () => {
    const credentials = addCredential([credential('old', 0), credential('new', 0)], 'newest', 10 * minuteMs);
    expect(credentials.map(({ digest }) => digest)).toEqual(['new', 'newest']);
  });
});
