// Proving an e-mail address by a mail, and what an account that did not prove its address must not get.
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { call, createUser, makeDevice, type TestUser } from '../rig/clients/client.ts';
import { callWith } from '../rig/limited.ts';
import { catchMails, withMail, type SentMail } from '../rig/mails.ts';

const password = 'correct horse';

const ask = <T = never>(method: string, path: string, by?: { token: string }, body?: unknown) =>
  callWith<T>(withMail, method, path, { ...(by && { token: by.token }), body });
const verify = (token: string | undefined) => ask('POST', '/users/email-verification', undefined, { token });
const isVerified = async (user: TestUser) =>
  (await ask<{ emailVerified: boolean }>('GET', '/users/me', user)).data.emailVerified;
const askMail = (user: TestUser) => ask<{ emailVerified: boolean }>('POST', '/users/me/email-verification', user);
const prove = ({ userId }: TestUser) =>
  env.DB.prepare('update users set email_verified_at = 1 where id = ?').bind(userId).run();
const tokenIn = (mail: SentMail | undefined) => /https:\/\/app\.test\/\w+#(\w+)/.exec(mail?.text ?? '')?.[1];

async function mailed(user: TestUser): Promise<string | undefined> {
  const mails = catchMails();
  expect(await askMail(user)).toMatchObject({ data: { emailVerified: false } });
  await vi.waitFor(() => {
    expect(mails).toHaveLength(1);
  });
  return tokenIn(mails[0]);
}

afterEach(() => {
  vi.restoreAllMocks();
});

let owner: TestUser;
let stranger: TestUser;
beforeEach(async () => {
  [owner, stranger] = await Promise.all([createUser(), createUser()]);
});

describe('an e-mail address', () => {
  it('is proven by the link that registering mails, and not before', async () => {
    const mails = catchMails();
    const email = `${crypto.randomUUID()}@example.test`;
    await ask('POST', '/users/register', undefined, { email, password });
    const login = await ask<{ token: string }>('POST', '/users/login', undefined, { email, password });
    const user = { ...owner, token: login.data.token };
    expect(await isVerified(user)).toBe(false);
    await vi.waitFor(() => {
      expect(mails).toHaveLength(1);
    });
    expect(mails[0]).toMatchObject({ to: email, subject: 'Confirm your e-mail address' });
    expect(await verify(tokenIn(mails[0]))).toMatchObject({ data: { emailVerified: true } });
    expect(await isVerified(user)).toBe(true);
    expect(await askMail(user)).toMatchObject({ data: { emailVerified: true } });
    expect(mails).toHaveLength(1);
    await vi.waitFor(async () => {
      expect(JSON.stringify(await ask('GET', '/users/me/security-events', user))).toContain('email_verified');
    });
  });

  it('is proven by no token that is used, late or invented', async () => {
    const late = await mailed(owner);
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 86_401_000);
    const refused = { status: 400, message: 'invalid_request: token: is unknown, used or expired' };
    expect(await verify(late)).toMatchObject(refused);
    now.mockRestore();
    expect(await verify(`ev_${'x'.repeat(43)}`)).toMatchObject(refused);
    expect(await isVerified(owner)).toBe(false);
    const earlier = await mailed(owner);
    expect((await verify(late)).status).toBe(200);
    for (const used of [late, earlier]) expect(await verify(used)).toMatchObject(refused);
  });

  it('gets no more than three mails an hour', async () => {
    const mails = catchMails();
    const answers = [await askMail(owner), await askMail(owner), await askMail(owner), await askMail(owner)];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(answers[3]?.headers.get('Retry-After')).toBe('3600');
    await vi.waitFor(() => {
      expect(mails).toHaveLength(3);
    });
  });

  it('is proven by a password reset by mail, and not by the token of an operator', async () => {
    const mails = catchMails();
    const reset = (token: string | undefined) =>
      ask('PUT', '/users/password-reset', undefined, { token, newPassword: password });
    await ask('POST', '/users/password-reset', undefined, { email: owner.email });
    await vi.waitFor(() => {
      expect(mails).toHaveLength(1);
    });
    expect((await reset(tokenIn(mails[0]))).status).toBe(200);
    const proven = 'select email_verified_at is not null as proven from users where id = ?';
    expect(await env.DB.prepare(proven).bind(owner.userId).first()).toEqual({ proven: 1 });
    const secret = { headers: { Authorization: 'Bearer operator-secret-of-the-worker-tests-only' } };
    const { data } = await call<{ token: string }>('POST', '/operator/accounts/reset-password', {
      ...secret,
      body: { name: stranger.email },
    });
    expect((await reset(data.token)).status).toBe(200);
    expect(await env.DB.prepare(proven).bind(stranger.userId).first()).toEqual({ proven: 0 });
  });

  it('counts as proven if the service sends no mails', async () => {
    const account = await callWith({}, 'GET', '/users/me', owner);
    expect(account).toMatchObject({ data: { emailVerified: true } });
  });
});

describe('an account that did not prove its e-mail', () => {
  const invite = ({ deviceId }: { deviceId: string }, { email }: { email: string }, by = owner) =>
    ask<{ invitationId: string }>('POST', `/devices/${deviceId}/members`, by, { email, role: 'viewer' });
  const offer = ({ deviceId }: { deviceId: string }, email: string, by = owner) =>
    ask<object>('POST', `/devices/${deviceId}/transfer`, by, { email });
  const refused = { status: 403, message: 'email_not_verified' };

  it('is shown no invitation to it, and accepts none', async () => {
    await prove(owner);
    const { data } = await invite(await makeDevice(owner), stranger);
    const incoming = () => ask<{ total: number; list: object[] }>('GET', '/invitations', stranger);
    expect(await incoming()).toMatchObject({ data: { total: 0, list: [] } });
    for (const [method, path] of [
      ['POST', '/accept'],
      ['DELETE', ''],
    ] as const) {
      expect(await ask(method, `/invitations/${data.invitationId}${path}`, stranger)).toMatchObject({ status: 404 });
    }
    expect((await verify(await mailed(stranger))).status).toBe(200);
    expect(await incoming()).toMatchObject({ data: { total: 1, list: [{ invitationId: data.invitationId }] } });
  });

  it('is offered no device, and the owner cannot tell it from an unknown e-mail', async () => {
    await prove(owner);
    const device = await makeDevice(owner);
    const answers = [await offer(device, 'nobody@example.test'), await offer(device, stranger.email)];
    expect(answers.map(({ status, data }) => [status, Object.keys(data)])).toEqual(
      Array.from({ length: 2 }, () => [200, ['deviceId', 'email', 'expiresAt']]),
    );
    expect(await ask('GET', '/devices/transfers', stranger)).toMatchObject({ data: { total: 0, list: [] } });
    const accepted = () => ask('POST', `/devices/${device.deviceId}/transfer/accept`, stranger);
    expect(await accepted()).toMatchObject({ status: 404 });
    await prove(stranger);
    expect(await accepted()).toMatchObject({ status: 404 });
    await offer(device, stranger.email);
    expect(await accepted()).toMatchObject({ status: 200 });
  });

  it('invites nobody and offers nothing', async () => {
    const device = await makeDevice(owner);
    expect(await invite(device, stranger)).toMatchObject(refused);
    expect(await offer(device, stranger.email)).toMatchObject(refused);
    await prove(owner);
    expect((await invite(device, stranger)).status).toBe(200);
    expect((await offer(device, stranger.email)).status).toBe(200);
  });
});
