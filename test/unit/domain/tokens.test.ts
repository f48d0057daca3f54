// Access tokens: what is let in, and each way of being wrong that must not be.
import { SignJWT } from 'jose';
import { afterEach, expect, it, vi } from 'vitest';
import { signAccessToken, verifyAccessToken, type TokenConfig } from '../../../src/crypto/tokens.ts';
import { unwrap } from '../../../src/domain/refusal.ts';

const current = { kid: 'new', secret: 'the-secret-that-signs-now-0123456789' };
const previous = { kid: 'old', secret: 'the-secret-that-signed-before-0123456789' };
const config: TokenConfig = { signingKeys: [current, previous], accessTokenSeconds: 7200 };

type Changes = { header?: object; secret?: string; claims?: object };

/** A token that is right in every respect but the changes. */
function forge({ header = {}, secret = current.secret, claims = {} }: Changes): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const payload = { iss: 'latchwork', aud: 'latchwork-api', sub: '7', sid: 'session', iat: now, exp: now + 60 };
  return new SignJWT({ ...payload, ...claims })
    .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt', kid: current.kid, ...header })
    .sign(new TextEncoder().encode(secret));
}

function unsigned(header: object, claims: object): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
  return `${encode(header)}.${encode(claims)}.`;
}

/** Why a token is refused. */
async function problemOf(token: string, by: TokenConfig = config): Promise<string | undefined> {
  const access = await verifyAccessToken(by, token);
  return access.ok || access.refusal.kind !== 'credential_refused' ? undefined : access.refusal.problem;
}

afterEach(() => void vi.useRealTimers());

it('says who, in which session and until when', async () => {
  const beforeMs = Date.now();
  const access = await verifyAccessToken(config, await signAccessToken(config, 7, 'session'));
  expect(access).toMatchObject({ ok: true, value: { userId: 7, sessionId: 'session' } });
  expect(unwrap(access).expiresAtMs).toBeGreaterThanOrEqual(Math.floor(beforeMs / 1000) * 1000 + 7_200_000);
});

it('stays valid when its key became the older one of two, and not when the key is gone', async () => {
  const token = await signAccessToken({ ...config, signingKeys: [previous] }, 7, 'session');
  expect(await verifyAccessToken(config, token)).toMatchObject({ ok: true });
  expect(await problemOf(token, { ...config, signingKeys: [current] })).toBe('wrong');
});

it('is refused when it has expired or its key is gone, also by who has let it in before', async () => {
  const token = await signAccessToken(config, 7, 'session');
  expect(await verifyAccessToken(config, token)).toMatchObject({ ok: true });
  expect(await verifyAccessToken(config, token)).toMatchObject({ ok: true });
  expect(await problemOf(token, { ...config, signingKeys: [previous] })).toBe('wrong');
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + config.accessTokenSeconds * 1000 });
  expect(await problemOf(token)).toBe('expired');
  expect(await problemOf(token)).toBe('expired');
});

it('is let in when forged with nothing changed, which proves the cases below', async () => {
  expect(await verifyAccessToken(config, await forge({}))).toMatchObject({ ok: true });
});

const now = Math.floor(Date.now() / 1000);
const refused: [string, Changes, problem?: string][] = [
  ['another algorithm', { header: { alg: 'HS512' }, secret: current.secret.repeat(2) }, 'malformed'],
  ['another type', { header: { typ: 'JWT' } }],
  ['no type', { header: { typ: undefined } }],
  ['an unknown key', { header: { kid: 'other' } }],
  ['no key', { header: { kid: undefined } }],
  ['the key of another id', { header: { kid: previous.kid } }],
  ['another secret', { secret: 'a-secret-nobody-ever-configured-here' }],
  ['another issuer', { claims: { iss: 'elsewhere' } }],
  ['another audience', { claims: { aud: 'elsewhere' } }],
  ['no expiry', { claims: { exp: undefined } }],
  ['an expiry that has passed', { claims: { exp: now - 1 } }, 'expired'],
  ['no time of issue', { claims: { iat: undefined } }],
  ['no subject', { claims: { sub: undefined } }],
  ['a subject that is no user', { claims: { sub: '7; drop' } }, 'malformed'],
  ['no session', { claims: { sid: undefined } }, 'malformed'],
  ['a time of validity to come', { claims: { nbf: now + 3600 } }],
  ['more than 4 KiB', { claims: { padding: 'x'.repeat(4096) } }, 'malformed'],
];
it.each(refused)('is refused with %s', async (_, changes, problem = 'wrong') => {
  expect(await problemOf(await forge(changes))).toBe(problem);
});

it('is refused when a single character of any part differs', async () => {
  const token = await signAccessToken(config, 7, 'session');
  for (const index of [5, token.indexOf('.') + 5, token.lastIndexOf('.') + 5]) {
    const changed = token.slice(0, index) + (token[index] === 'A' ? 'B' : 'A') + token.slice(index + 1);
    expect(await problemOf(changed)).toMatch(/^(wrong|malformed)$/);
  }
});

it('is refused without a signature, and so is anything that is no token', async () => {
  const claims = { iss: 'latchwork', aud: 'latchwork-api', sub: '7', sid: 's', iat: now, exp: now + 60 };
  const none = unsigned({ alg: 'none', typ: 'at+jwt', kid: current.kid }, claims);
  for (const token of [none, '', '.', '..', 'a.b.c', 'null', '\0', 'é.é.é']) {
    expect(await problemOf(token)).toMatch(/^(wrong|malformed)$/);
  }
});
