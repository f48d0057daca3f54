// Proof that an account reads the mailbox of its e-mail, by a link in a mail. If the service sends no mails, nobody can prove it:
// every account counts as verified.
import { runInBackground, type ServiceContext } from '../../context.ts';
import type { Config } from '../../config.ts';
import { digestOf } from '../../crypto/secrets.ts';
import { useEmailVerification, type UserRow } from '../../db/accounts/users.ts';
import { invalidInput, rateLimited, RefusedError } from '../../domain/refusal.ts';
import { dayMs } from '../../domain/time.ts';
import { deliver, issueToken, openToken } from './mails.ts';
import { recordSecurityEvent } from './security-events.ts';

export function isEmailVerified({ mail }: Config, { emailVerifiedAt }: Pick<UserRow, 'emailVerifiedAt'>): boolean {
  return mail === undefined || emailVerifiedAt !== null;
}

/** For who invites others or offers them devices. @throws RefusedError email_not_verified */
export function requireVerified(config: Config, user: UserRow): void {
  if (!isEmailVerified(config, user)) throw new RefusedError({ kind: 'email_not_verified', userId: user.id });
}

/** @throws RefusedError rate_limited, also for an account that was disabled meanwhile */
export async function mailVerification(context: ServiceContext, { id, email }: Pick<UserRow, 'id' | 'email'>) {
  const { mail, emailVerificationUrl: url } = context.config;
  if (mail === undefined) return;
  const kind = { purpose: 'emailVerification', prefix: 'ev_', lifeMs: dayMs, url } as const;
  const issued = await issueToken(context, id, kind);
  if (issued === undefined) throw rateLimited('emailVerificationsPerHour', 3_600);
  const text = `Somebody made an account with this e-mail address. Within 24 hours you can confirm here that it is yours:

${issued.link ?? issued.token}

If it was not you, you need to do nothing.
`;
  runInBackground('e-mail verification', deliver(mail, email, { subject: 'Confirm your e-mail address', text }));
}

/** @throws RefusedError invalid_input for a token that is not good */
export async function verifyEmail(context: ServiceContext, token: string): Promise<void> {
  const secret = await openToken(context.config, ['ev_'], token);
  const hash = secret === undefined ? undefined : await digestOf(secret);
  const userId = hash && (await useEmailVerification(context.primary(), hash, Date.now()));
  if (typeof userId !== 'number') throw invalidInput('token', 'is unknown, used or expired');
  recordSecurityEvent(context, { userId, kind: 'email_verified' });
}
