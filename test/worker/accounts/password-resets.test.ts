// Setting a forgotten password anew with a mail: what is sent, to whom, how often, and that answers tell nothing.
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createApp } from '../../../src/app.ts';
import { call } from '../rig/clients/client.ts';
import { catchMails, withMail } from '../rig/mails.ts';

const password = 'correct horse';
const newPassword = 'battery staple';

afterEach(() => {
  vi.restoreAllMocks();
});

async function ask(email: string, changes: object = withMail): Promise<{ status: number; message: string }> {
  const request = new Request('https://latchwork.test/api/v1/users/password-reset', {
    method: 'POST',
    body: JSON.stringify({ email }),
  });
  const execution = createExecutionContext();
  const response = await createApp().fetch(request, { ...env, ...changes }, execution);
  const { message, data } = await response.json<{ message: string; data: unknown }>();
  await waitOnExecutionContext(execution);
  if (response.status === 200) expect(data).toEqual({ message: 'reset_requested' });
  return { status: response.status, message };
}

async function register(): Promise<string> {
  const email = `${crypto.randomUUID()}@example.test`;
  await call('POST', '/users/register', { body: { username: `user ${email.slice(0, 8)}`, email, password } });
  return email;
}

const arrived = (mails: unknown[], count: number) => vi.waitFor(() => expect(mails).toHaveLength(count));

async function mailedReset() {
  const mails = catchMails();
  await ask(await register());
  await arrived(mails, 1);
  const text = mails[0]?.text ?? '';
  return { text, token: /#(pm_\w+)/.exec(text)?.[1] };
}

describe('a password reset by mail', () => {
  it('sends one mail with a link to the address of the account, good once', async () => {
    const email = await register();
    const mails = catchMails();
    expect((await ask(email.toUpperCase())).status).toBe(200);
    await arrived(mails, 1);
    expect(mails[0]).toMatchObject({ from: withMail.MAIL_FROM, to: email });
    const token = /https:\/\/app\.test\/reset#(pm_\w+)/.exec(mails[0]?.text ?? '')?.[1];
    expect(await call('PUT', '/users/password-reset', { body: { token, newPassword: 'short' } })).toMatchObject({
      message: 'weak_password',
    });
    expect(await call('PUT', '/users/password-reset', { body: { token, newPassword: 'baseball' } })).toMatchObject({
      message: 'weak_password: it is among the 10 000 most common',
    });
    const answers = [1, 2].map(() => call('PUT', '/users/password-reset', { body: { token, newPassword } }));
    expect((await Promise.all(answers)).map(({ status }) => status).sort()).toEqual([200, 400]);
    expect((await call('POST', '/users/login', { body: { email, password: newPassword } })).status).toBe(200);
    expect((await call('POST', '/users/login', { body: { email, password } })).status).toBe(401);
  });

  it('is good for thirty minutes', async () => {
    const { text, token } = await mailedReset();
    expect(text).toContain('Within 30 minutes');
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 1_801_000);
    const answer = await call('PUT', '/users/password-reset', { body: { token, newPassword } });
    expect(answer).toMatchObject({ status: 400, message: 'invalid_request: token: is unknown, used or expired' });
    now.mockRestore();
    expect((await call('PUT', '/users/password-reset', { body: { token, newPassword } })).status).toBe(200);
  });

  it('answers the same for addresses without an account, and sends nothing', async () => {
    await register();
    const mails = catchMails();
    expect(await ask('nobody@example.test')).toEqual({ status: 200, message: 'success' });
    expect(mails).toEqual([]);
  });

  it('sends an account no more than three mails an hour', async () => {
    const email = await register();
    const mails = catchMails();
    for (let count = 0; count < 5; count += 1) expect((await ask(email)).status).toBe(200);
    await arrived(mails, 3);
  });

  it('answers the same where the mail service refuses', async () => {
    const email = await register();
    const mails = catchMails(500);
    expect((await ask(email)).status).toBe(200);
    await arrived(mails, 1);
  });

  it('is not there without a mail service', async () => {
    expect(await ask(await register(), {})).toEqual({ status: 404, message: 'not_found' });
  });

  it('is refused with a token that has expired, or that is none', async () => {
    const { token } = await mailedReset();
    await env.DB.prepare('update password_resets set expires_at = 1').run();
    for (const refused of [token, 'pr_nonsense', '']) {
      const answer = await call('PUT', '/users/password-reset', { body: { token: refused, newPassword } });
      expect(answer).toMatchObject({ status: 400, message: 'invalid_request: token: is unknown, used or expired' });
    }
  });
});
