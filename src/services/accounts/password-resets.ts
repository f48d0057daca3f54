// Setting a password anew without the old one: with a token from the operator, or from a mail. Every answer to a request for a
// mail is the same, so that it does not tell which accounts exist.
import { runInBackground, type ServiceContext } from '../../context.ts';
import { hashPassword } from '../../crypto/password.ts';
import { digestOf } from '../../crypto/secrets.ts';
import { findPasswordReset, findUserByName, type UserRow } from '../../db/accounts/users.ts';
import { replacePassword } from '../../db/accounts/refresh-tokens.ts';
import { foldName } from '../../domain/names.ts';
import { invalidInput, notFound } from '../../domain/refusal.ts';
import { log } from '../../log.ts';
import { callInbox } from '../../objects/calls/stubs.ts';
import { describePasswordChange, refuseWeak } from './accounts.ts';
import { deliver, issueToken, openToken } from './mails.ts';
import { recordSecurityEvent } from './security-events.ts';
import { passwordQueueOf } from '../../pacing/password-queue.ts';
import { minuteMs } from '../../domain/time.ts';

/** A mail may be slow; a token that lies in a mailbox for long is a risk. */
const tokenMinutes = 30;
/** A token that was mailed proves the e-mail as well; the operator may hand a token over in another way. */
const prefixes = { mail: 'pm_', operator: 'pr_' } as const;

/** Goes on after the answer, whose time would tell an account that exists. @throws RefusedError not_found without mails */
export function requestPasswordReset(context: ServiceContext, email: string): void {
  const { mail } = context.config;
  if (mail === undefined) throw notFound('route');
  const sendIfKnown = async (): Promise<void> => {
    const user = await findUserByName(context.primary(), foldName(email));
    // A username that looks like somebody else's email is nobody's address.
    if (user === undefined || user.foldedEmail !== foldName(email)) return;
    const reset = await issuePasswordReset(context, user, 'mail');
    if (reset === undefined) log('warn', 'password reset: no mail sent', { userId: user.id });
    else await deliver(mail, user.email, describeReset(reset.link ?? reset.token));
  };
  runInBackground('password reset by mail', sendIfKnown());
}

/** undefined for a disabled account, and for an account that had too many within the hour. */
export function issuePasswordReset(context: ServiceContext, { id }: UserRow, way: keyof typeof prefixes) {
  const { passwordResetUrl: url } = context.config;
  const kind = { purpose: 'passwordReset', prefix: prefixes[way], lifeMs: tokenMinutes * minuteMs, url } as const;
  return issueToken(context, id, kind);
}

/** Ends all sessions, API keys and other tokens of the user. @throws RefusedError invalid_input for a token that is not good */
export async function resetPassword(
  context: ServiceContext,
  { token, newPassword }: { token: string; newPassword: string },
) {
  refuseWeak(newPassword);
  const refusal = invalidInput('token', 'is unknown, used or expired');
  const secret = await openToken(context.config, Object.values(prefixes), token);
  if (secret === undefined) throw refusal;
  const queue = passwordQueueOf(context.config);
  const client = { isKnown: false, address: context.clientAddress };
  queue.refuseIfFull(client);
  const database = context.primary();
  const reset = await findPasswordReset(database, await digestOf(secret), Date.now());
  if (reset === undefined) throw refusal;
  const newHash = await queue.run(client, () => hashPassword(newPassword));
  const { userId, hash: resetHash } = reset;
  const provenAtMs = token.startsWith(prefixes.mail) ? Date.now() : null;
  const ended = await replacePassword(database, { userId, newHash, by: { resetHash, provenAtMs } });
  if (ended === undefined) throw refusal;
  recordSecurityEvent(context, { userId, kind: 'password_reset' });
  await callInbox(context.env, userId, 'idempotent').unsubscribe();
  return describePasswordChange(context, ended);
}

function describeReset(linkOrToken: string): { subject: string; text: string } {
  const text = `Somebody asked to set a new password for your account. Within ${tokenMinutes} minutes you can do so here:

${linkOrToken}

If it was not you, you need to do nothing: your password stays as it is.
`;
  return { subject: 'Set a new password', text };
}
