// Setting a password anew without the old one: with a token from the operator, or by a mail that this file sends over HTTP. Every
// answer to a request for a mail is the same, so that it does not tell which accounts exist.
import { runInBackground } from '../../background.ts';
import { hashPassword } from '../../crypto/password.ts';
import { certifySecret, createSecret, digestOf, openCertified } from '../../crypto/secrets.ts';
import { findPasswordReset, insertPasswordReset } from '../../db/accounts/password-resets.ts';
import { replacePassword } from '../../db/accounts/refresh-tokens.ts';
import { findUserByName, type UserRow } from '../../db/accounts/users.ts';
import { foldName } from '../../domain/names.ts';
import { RefusedError } from '../../domain/refusal.ts';
import { log } from '../../log.ts';
import { describePasswordChange, refuseWeak } from './accounts.ts';
import type { ServiceContext } from '../../context.ts';
import { passwordQueueOf } from '../../pacing/password-queue.ts';
import { hourMs, minuteMs, toIso } from '../../domain/time.ts';
import type { Config } from '../../config.ts';

/** Of one account: a stranger must not fill a mailbox. */
const tokensPerHour = 3;
/** A mail may be slow; a token that lies in a mailbox for long is a risk. */
const tokenMinutes = 30;
/** A secret and a code over it. */
const tokenPattern = /^pr_[A-Za-z0-9]{69}$/;
const tokenUse = 'latchwork password reset';

/** Goes on after the answer, whose time would tell an account that exists. @throws RefusedError not_found without mails */
export function requestPasswordReset(context: ServiceContext, email: string): void {
  const { mail } = context.config;
  if (mail === undefined) throw new RefusedError({ kind: 'not_found', what: 'route' });
  const sendIfKnown = async (): Promise<void> => {
    const user = await findUserByName(context.primary(), foldName(email));
    // A username that looks like somebody else's email is nobody's address.
    if (user === undefined || user.foldedEmail !== foldName(email)) return;
    const reset = await issuePasswordReset(context, user);
    if (reset === undefined) log('warn', 'password reset: no mail sent', { userId: user.id });
    else await sendMail(mail, { to: user.email, ...describeReset(reset.link ?? reset.token) });
  };
  runInBackground('password reset by mail', sendIfKnown());
}

/** undefined for a disabled account, and for an account that had too many within the hour. */
export async function issuePasswordReset(
  { config, primary }: ServiceContext,
  { id: userId }: UserRow,
): Promise<{ token: string; link: string | null; expiresAt: string } | undefined> {
  const nowMs = Date.now();
  const secret = createSecret('pr_', 43);
  const token = await certifySecret(config.messagingSecrets, tokenUse, secret);
  const expiresAt = nowMs + tokenMinutes * minuteMs;
  const row = { hash: await digestOf(secret), userId, createdAt: nowMs, expiresAt };
  if (!(await insertPasswordReset(primary(), row, tokensPerHour, nowMs - hourMs))) return undefined;
  const link = config.passwordResetUrl?.replaceAll('{token}', token) ?? null;
  return { token, link, expiresAt: toIso(expiresAt) };
}

/** Ends all sessions, API keys and other tokens of the user. @throws RefusedError invalid_input for a token that is not good */
export async function resetPassword(
  context: ServiceContext,
  { token, newPassword }: { token: string; newPassword: string },
  clientAddress: string,
) {
  refuseWeak(newPassword);
  const refusal = new RefusedError({ kind: 'invalid_input', path: 'token', problem: 'is unknown, used or expired' });
  if (!tokenPattern.test(token)) throw refusal;
  const secret = await openCertified(context.config.messagingSecrets, tokenUse, token);
  if (secret === undefined) throw refusal;
  const queue = passwordQueueOf(context.config);
  const client = { isKnown: false, address: clientAddress };
  queue.refuseIfFull(client);
  const database = context.primary();
  const reset = await findPasswordReset(database, await digestOf(secret), Date.now());
  if (reset === undefined) throw refusal;
  const newHash = await queue.run(client, () => hashPassword(newPassword));
  const { userId, hash: resetHash } = reset;
  const ended = await replacePassword(database, { userId, newHash, by: { resetHash } });
  if (ended === undefined) throw refusal;
  return describePasswordChange(context, ended);
}

function describeReset(linkOrToken: string): { subject: string; text: string } {
  const text = `Somebody asked to set a new password for your account. Within ${tokenMinutes} minutes you can do so here:

${linkOrToken}

If it was not you, you need to do nothing: your password stays as it is.
`;
  return { subject: 'Set a new password', text };
}

const answerWithinMs = 10_000;

async function sendMail(
  { url, from, secret }: NonNullable<Config['mail']>,
  mail: Record<'to' | 'subject' | 'text', string>,
): Promise<void> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ from, ...mail }),
    signal: AbortSignal.timeout(answerWithinMs),
    redirect: 'manual',
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`the mail service answered ${response.status}`);
}
