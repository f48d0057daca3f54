// The mail service of the Worker under test: what was sent to it. Asserts that only the Worker's own secret is shown to it.
import { env } from 'cloudflare:workers';
import { expect, vi } from 'vitest';

/** Bindings of a Worker that sends mails. */
export const withMail = {
  MAIL_URL: 'https://mail.test/emails',
  MAIL_FROM: 'Latchwork <no-reply@latchwork.test>',
  MAIL_SECRET: 'the-secret-of-the-mail-service',
  PASSWORD_RESET_URL: 'https://app.test/reset#{token}',
  EMAIL_VERIFICATION_URL: 'https://app.test/verify#{token}',
};

export type SentMail = { from: string; to: string; subject: string; text: string };

export function catchMails(status = 200): SentMail[] {
  const mails: SentMail[] = [];
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
    const request = new Request(input, init);
    expect(request.url).toBe(withMail.MAIL_URL);
    expect(request.headers.get('Authorization')).toBe(`Bearer ${withMail.MAIL_SECRET}`);
    mails.push(await request.json<SentMail>());
    return new Response(null, { status });
  });
  return mails;
}

export const arrived = (mails: unknown[], count: number) => vi.waitFor(() => expect(mails).toHaveLength(count));

/** Of the link in it. */
export const tokenIn = (mail: SentMail | undefined) => /https:\/\/app\.test\/\w+#(\w+)/.exec(mail?.text ?? '')?.[1];

/** The address of this user counts as proven. */
export const prove = ({ userId }: { userId: number }) =>
  env.DB.prepare('update users set email_verified_at = 1 where id = ?').bind(userId).run();
