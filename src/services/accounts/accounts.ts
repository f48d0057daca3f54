// Accounts: registering, reading one's own, changing the password. Sessions are in sessions.ts.
import { checkPassword, hashPassword } from '../../crypto/password.ts';
import { createId, digestOf } from '../../crypto/secrets.ts';
import type { Database } from '../../db/client.ts';
import { confirmSession, replacePassword, type EndedAccess } from '../../db/accounts/refresh-tokens.ts';
import { readSetting } from '../../db/accounts/operator.ts';
import { findUser, findUserByName, insertUser, type UserRow } from '../../db/accounts/users.ts';
import { foldName } from '../../domain/names.ts';
import { credentialRefused, RefusedError } from '../../domain/refusal.ts';
import type { PasswordBody } from '../../protocol/http/users.ts';
import type { ServiceContext } from '../../context.ts';
import { noteEndedKeys } from './api-keys.ts';
import { beginLoginAttempt, countFailure, resetFailures } from './login-attempts.ts';
import { passwordQueueOf } from '../../pacing/password-queue.ts';
import { toIso } from '../../domain/time.ts';

const minPasswordLength = 8;

export async function registerUser(
  context: ServiceContext,
  { username, email, password }: { username: string; email: string; password: string },
  clientAddress: string,
) {
  refuseWeak(password);
  const queue = passwordQueueOf(context.config);
  const client = { isKnown: false, address: clientAddress };
  queue.refuseIfFull(client);
  const database = context.primary();
  if ((await readSetting(database, 'sign_up')) === 'closed') throw new RefusedError({ kind: 'sign_up_closed' });
  const names = { foldedUsername: foldName(username), foldedEmail: foldName(email) };
  await refuseTaken(database, names);
  const passwordHash = await queue.run(client, () => hashPassword(password));
  const projectId = createId('prj_', 8);
  const user = { username, email, ...names, passwordHash, projectId, createdAt: Date.now(), emailVerifiedAt: null };
  const userId = await insertUser(database, user);
  if (userId === undefined) {
    await refuseTaken(database, names);
    throw new Error('a registration failed on names that are free');
  }
  return { userId, username, email };
}

export async function readAccount(context: ServiceContext, userId: number) {
  const { username, email, createdAt } = await requireUser(context, userId);
  return { userId, username, email, createdAt: toIso(createdAt) };
}

type CallerInSession = { userId: number; sessionId: string; clientAddress: string };

/** Forgets the devices on which the user logged in; by default ends all other sessions, and all API keys. */
export async function changePassword(
  context: ServiceContext,
  caller: CallerInSession,
  { oldPassword, newPassword, deviceToken, endSessions, endKeys }: PasswordBody,
) {
  refuseWeak(newPassword);
  const database = context.primary();
  const { user, isKnownDevice } = await requirePassword(context, caller, oldPassword, deviceToken ?? undefined);
  const hashClient = { isKnown: isKnownDevice, address: caller.clientAddress };
  const newHash = await passwordQueueOf(context.config).run(hashClient, () => hashPassword(newPassword));
  const ended = await replacePassword(database, {
    userId: user.id,
    newHash,
    by: { oldHash: user.passwordHash },
    keptSession: caller.sessionId,
    keptDevice: isKnownDevice ? await digestOf(deviceToken ?? '') : '',
    endsSessions: endSessions,
    endsKeys: endKeys,
  });
  // Another change came first: the given password is no longer the current one.
  if (ended === undefined) throw new RefusedError(credentialRefused('account_password', 'revoked'));
  return describePasswordChange(context, ended);
}

/** When it is answered, no key that ended opens anything. */
export async function describePasswordChange(context: ServiceContext, { sessions, keyIds }: EndedAccess) {
  await noteEndedKeys(context, keyIds);
  return { message: 'password_changed' as const, endedSessions: sessions, endedKeys: keyIds.length };
}

/** For five minutes the session may do what needs its user himself (`requireOpenSession`). */
export async function confirmPassword(context: ServiceContext, caller: CallerInSession, password: string) {
  await requirePassword(context, caller, password, undefined);
  await confirmSession(context.primary(), caller.userId, caller.sessionId, Date.now());
  return { message: 'confirmed' as const };
}

async function requirePassword(
  context: ServiceContext,
  caller: CallerInSession,
  password: string,
  shownToken: string | undefined,
) {
  const database = context.primary();
  const user = await requireUser(context, caller.userId);
  // A stolen access token must not be a way to guess the password undisturbed.
  const { id: userId, foldedEmail: account } = user;
  const { clientAddress } = caller;
  const client = { account, userId, clientAddress, shownToken };
  const attempt = await beginLoginAttempt(database, context.config.limits, client);
  const { isKnownDevice } = attempt;
  const queue = passwordQueueOf(context.config);
  const hashClient = { isKnown: isKnownDevice, address: clientAddress };
  if (!(await queue.run(hashClient, () => checkPassword(password, user.passwordHash)))) {
    await countFailure(database, attempt);
    throw new RefusedError(credentialRefused('account_password', 'wrong'));
  }
  await resetFailures(database, attempt);
  return { user, isKnownDevice };
}

export async function requireUser(context: ServiceContext, userId: number): Promise<UserRow> {
  const user = await findUser(context.primary(), userId);
  if (user === undefined) throw new RefusedError(credentialRefused('session', 'unknown_account'));
  return user;
}

export function refuseWeak(password: string): void {
  if (Array.from(password).length < minPasswordLength) {
    throw new RefusedError({ kind: 'weak_password', minLength: minPasswordLength });
  }
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
