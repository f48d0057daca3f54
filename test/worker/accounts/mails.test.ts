// Proving an e-mail address by a mail, and what an account that did not prove its address must not get. Setting a forgotten
// password anew with a mail: what is sent, to whom, how often, and that answers tell nothing.
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { logIn, newEmail, newPassword, operate, password, register } from '../rig/accounts.ts';
import { call, createUser, makeDevice, type TestUser } from '../rig/clients/client.ts';
import { callWith, sendWith } from '../rig/limited.ts';
import { arrived, catchMails, prove, tokenIn, withMail } from '../rig/mails.ts';

const ask = <T = never>(method: string, path: string, by?: { token: string }, body?: unknown) =>
  callWith<T>(withMail, method, path, { ...(by && { token: by.token }), body });
const verify = (token: string | undefined) => ask('POST', '/users/email-verification', undefined, { token });
const isVerified = async (user: TestUser) =>
  (await ask<{ emailVerified: boolean }>('GET', '/users/me', user)).data.emailVerified;
const askMail = (user: TestUser) => ask<{ emailVerified: boolean }>('POST', '/users/me/email-verification', user);
const unknownToken = { status: 400, message: 'invalid_request: token: is unknown, used or expired' };
const reset = (token: string | undefined, shown = newPassword) =>
  call('PUT', '/users/password-reset', { body: { token, newPassword: shown } });

async function mailed(user: TestUser): Promise<string | undefined> {
  const mails = catchMails();
  expect(await askMail(user)).toMatchObject({ data: { emailVerified: false } });
  await arrived(mails, 1);
  return tokenIn(mails[0]);
}

let owner: TestUser;
let stranger: TestUser;
beforeEach(async () => {
  [owner, stranger] = await Promise.all([createUser(), createUser()]);
});

describe('an e-mail address', () => {
  it('is proven by the link that registering mails, and not before', async () => {
    const mails = catchMails();
    const email = newEmail();
    await ask('POST', '/users/register', undefined, { email, password });
    const user = { ...owner, ...(await logIn(email)).data };
    expect(await isVerified(user)).toBe(false);
    await arrived(mails, 1);
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
    expect(await verify(late)).toMatchObject(unknownToken);
    now.mockRestore();
    expect(await verify(`ev_${'x'.repeat(43)}`)).toMatchObject(unknownToken);
    expect(await isVerified(owner)).toBe(false);
    const earlier = await mailed(owner);
    expect((await verify(late)).status).toBe(200);
    for (const used of [late, earlier]) expect(await verify(used)).toMatchObject(unknownToken);
  });

  it('gets no more than three mails an hour', async () => {
    const mails = catchMails();
    const answers = [await askMail(owner), await askMail(owner), await askMail(owner), await askMail(owner)];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(answers[3]?.headers.get('Retry-After')).toBe('3600');
    await arrived(mails, 3);
  });

  it('is proven by a password reset by mail, and not by the token of an operator', async () => {
    const mails = catchMails();
    await ask('POST', '/users/password-reset', undefined, { email: owner.email });
    await arrived(mails, 1);
    expect((await reset(tokenIn(mails[0]))).status).toBe(200);
    const proven = 'select email_verified_at is not null as proven from users where id = ?';
    expect(await env.DB.prepare(proven).bind(owner.userId).first()).toEqual({ proven: 1 });
    const { data } = await operate<{ token: string }>('/accounts/reset-password', { name: stranger.email });
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

async function askReset(email: string, changes: object = withMail): Promise<{ status: number; message: string }> {
  const execution = createExecutionContext();
  const response = await sendWith(changes, 'POST', '/users/password-reset', { body: { email } }, execution);
  const { message, data } = await response.json<{ message: string; data: unknown }>();
  await waitOnExecutionContext(execution);
  if (response.status === 200) expect(data).toEqual({ message: 'reset_requested' });
  return { status: response.status, message };
}

async function registered(): Promise<string> {
  const email = newEmail();
  await register(email);
  return email;
}

describe('a password reset by mail', () => {
  it('sends one mail with a link to the address of the account, good once', async () => {
    const email = await registered();
    const mails = catchMails();
    expect((await askReset(email.toUpperCase())).status).toBe(200);
    await arrived(mails, 1);
    expect(mails[0]).toMatchObject({ from: withMail.MAIL_FROM, to: email });
    const token = /https:\/\/app\.test\/reset#(pm_\w+)/.exec(mails[0]?.text ?? '')?.[1];
    expect(await reset(token, 'short')).toMatchObject({
      message: 'weak_password',
    });
    expect(await reset(token, 'baseball')).toMatchObject({
      message: 'weak_password: it is among the 10 000 most common',
    });
    const answers = [1, 2].map(() => reset(token));
    expect((await Promise.all(answers)).map(({ status }) => status).sort()).toEqual([200, 400]);
    expect((await logIn(email, newPassword)).status).toBe(200);
    expect((await logIn(email)).status).toBe(401);
  });

  it('is good for thirty minutes', async () => {
    const mails = catchMails();
    await askReset(await registered());
    await arrived(mails, 1);
    expect(mails[0]?.text).toContain('Within 30 minutes');
    const token = tokenIn(mails[0]);
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 1_801_000);
    expect(await reset(token)).toMatchObject(unknownToken);
    now.mockRestore();
    for (const none of ['pr_nonsense', '']) expect(await reset(none)).toMatchObject(unknownToken);
    expect((await reset(token)).status).toBe(200);
  });

  it('answers the same for addresses without an account, and sends nothing', async () => {
    await registered();
    const mails = catchMails();
    expect(await askReset('nobody@example.test')).toEqual({ status: 200, message: 'success' });
    expect(mails).toEqual([]);
  });

  it('sends an account no more than three mails an hour', async () => {
    const email = await registered();
    const mails = catchMails();
    for (let count = 0; count < 5; count += 1) expect((await askReset(email)).status).toBe(200);
    await arrived(mails, 3);
  });

  it('answers the same where the mail service refuses', async () => {
    const email = await registered();
    const mails = catchMails(500);
    expect((await askReset(email)).status).toBe(200);
    await arrived(mails, 1);
  });

  it('is not there without a mail service', async () => {
    expect(await askReset(await registered(), {})).toEqual({ status: 404, message: 'not_found' });
  });
});
