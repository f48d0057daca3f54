// Accounts: registering, reading one's own, changing the password. Sessions are in sessions.ts.
import { checkPassword, dummyHash, hashPassword } from '../../crypto/password.ts';
import { createId, digestOf } from '../../crypto/secrets.ts';
import type { Database } from '../../db/client.ts';
import { confirmSession, replacePassword, type EndedAccess } from '../../db/accounts/refresh-tokens.ts';
import { readSetting } from '../../db/accounts/operator.ts';
import { findUser, findUserByName, insertUser, type UserRow } from '../../db/accounts/users.ts';
import { isCommonPassword } from '../../domain/common-password.ts';
import { foldName } from '../../domain/names.ts';
import { credentialRefused, invalidInput, RefusedError } from '../../domain/refusal.ts';
import { callInbox } from '../../objects/calls/stubs.ts';
import type { PasswordBody, RegisterBody } from '../../protocol/http/users.ts';
import { runInBackground, type ServiceContext } from '../../context.ts';
import { noteEndedKeys } from './api-keys.ts';
import { isEmailVerified, mailVerification } from './email-verification.ts';
import { beginLoginAttempt, type LoginClient } from './login-attempts.ts';
import { recordSecurityEvent } from './security-events.ts';
import { passwordQueueOf } from '../../pacing/password-queue.ts';
import { toIso } from '../../domain/time.ts';

const minPasswordLength = 8;

export async function registerUser(context: ServiceContext, { email, password, ...body }: RegisterBody) {
  const username = body.username ?? email;
  refuseWeak(password);
  const queue = passwordQueueOf(context.config);
  const client = { isKnown: false, address: context.clientAddress };
  queue.refuseIfFull(client);
  const database = context.primary();
  if ((await readSetting(database, 'sign_up')) === 'closed') throw new RefusedError({ kind: 'sign_up_closed' });
  const names = { foldedUsername: foldName(username), foldedEmail: foldName(email) };
  await refuseTaken(database, names);
  if (names.foldedUsername.includes('@') && names.foldedUsername !== names.foldedEmail) {
    throw invalidInput('username', 'holds an @ and is not the email');
  }
  const passwordHash = await queue.run(client, () => hashPassword(password));
  const projectId = createId('prj_', 8);
  const user = { username, email, ...names, passwordHash, projectId, createdAt: Date.now(), emailVerifiedAt: null };
  const userId = await insertUser(database, user);
  if (userId === undefined) {
    await refuseTaken(database, names);
    throw new Error('a registration failed on names that are free');
  }
  runInBackground('e-mail verification', mailVerification(context, { id: userId, email }));
  return { userId, username, email };
}

export async function readAccount(context: ServiceContext, userId: number) {
  const user = await requireUser(context, userId);
  const { username, email, createdAt } = user;
  const emailVerified = isEmailVerified(context.config, user);
  return { userId, username, email, emailVerified, createdAt: toIso(createdAt) };
}

/** Mails nothing to a verified account. @throws RefusedError rate_limited */
export async function requestVerification(context: ServiceContext, userId: number) {
  const user = await requireUser(context, userId);
  const emailVerified = isEmailVerified(context.config, user);
  if (!emailVerified) await mailVerification(context, user);
  return { emailVerified };
}

export type InSession = { userId: number; sessionId: string };

/** Forgets the devices on which the user logged in; by default ends all other sessions, and all API keys. */
export async function changePassword(
  context: ServiceContext,
  caller: InSession,
  { oldPassword, newPassword, deviceToken, endSessions, endKeys }: PasswordBody,
) {
  refuseWeak(newPassword);
  const { user, hashClient } = await confirm(context, caller, oldPassword, deviceToken);
  const newHash = await passwordQueueOf(context.config).run(hashClient, () => hashPassword(newPassword));
  const ended = await replacePassword(context.primary(), {
    userId: user.id,
    newHash,
    by: { oldHash: user.passwordHash },
    keptSession: caller.sessionId,
    keptDevice: hashClient.isKnown ? await digestOf(deviceToken ?? '') : '',
    endsSessions: endSessions,
    endsKeys: endKeys,
  });
  // Another change came first: the given password is no longer the current one.
  if (ended === undefined) throw new RefusedError(credentialRefused('account_password', 'revoked'));
  recordSecurityEvent(context, { userId: user.id, kind: 'password_changed' });
  if (endSessions) await callInbox(context.env, user.id, 'idempotent').unsubscribe();
  return describePasswordChange(context, ended);
}

/** When it is answered, no key that ended opens anything. */
export async function describePasswordChange(context: ServiceContext, { sessions, keyIds }: EndedAccess) {
  await noteEndedKeys(context, keyIds);
  return { message: 'password_changed' as const, endedSessions: sessions, endedKeys: keyIds.length };
}

/** For five minutes the session may do what needs its user himself (`requireOpenSession`). */
export async function confirmPassword(context: ServiceContext, caller: InSession, password: string) {
  await confirm(context, caller, password);
  await confirmSession(context.primary(), caller.userId, caller.sessionId, Date.now());
  return { message: 'confirmed' as const };
}

async function confirm(context: ServiceContext, caller: InSession, password: string, shownToken?: string | null) {
  const user = await requireUser(context, caller.userId);
  return provePassword(context, user, { account: user.foldedEmail, password, shownToken: shownToken ?? undefined });
}

/** Bounded wherever a password is shown: a stolen access token must not be a way to guess it undisturbed. */
export async function provePassword(
  context: ServiceContext,
  user: UserRow | undefined,
  shown: Omit<LoginClient, 'userId' | 'clientAddress'> & { password: string; isFamiliar?: boolean },
) {
  const { clientAddress } = context;
  const client = { ...shown, userId: user?.id, clientAddress };
  const attempt = await beginLoginAttempt(context.primary(), context.config.limits, client);
  const hashClient = { isKnown: attempt.isKnownDevice || shown.isFamiliar === true, address: clientAddress };
  const check = () => checkPassword(shown.password, user?.passwordHash ?? dummyHash);
  if (!(await passwordQueueOf(context.config).run(hashClient, check)) || user === undefined) {
    if (user !== undefined) recordSecurityEvent(context, { userId: user.id, kind: 'wrong_password' });
    await attempt.countFailure();
    throw new RefusedError(credentialRefused('account_password', user === undefined ? 'unknown_account' : 'wrong'));
  }
  await attempt.resetFailures();
  return { user, attempt, hashClient };
}

export async function requireUser(context: ServiceContext, userId: number): Promise<UserRow> {
  const user = await findUser(context.primary(), userId);
  if (user === undefined) throw new RefusedError(credentialRefused('session', 'unknown_account'));
  return user;
}

export function refuseWeak(password: string): void {
  if (Array.from(password).length < minPasswordLength) {
    throw new RefusedError({ kind: 'weak_password', because: 'short' });
  }
  if (isCommonPassword(password)) throw new RefusedError({ kind: 'weak_password', because: 'common' });
}

async function refuseTaken(database: Database, names: { foldedUsername: string; foldedEmail: string }): Promise<void> {
  if ((await findUserByName(database, names.foldedEmail)) !== undefined) {
    throw new RefusedError({ kind: 'name_taken', name: 'email' });
  }
  if (names.foldedUsername === names.foldedEmail) return;
  if ((await findUserByName(database, names.foldedUsername)) !== undefined) {
    throw new RefusedError({ kind: 'name_taken', name: 'username' });
  }
}
