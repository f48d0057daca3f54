// Logging in, refreshing, logging out. A session is a family of refresh tokens; its access tokens are valid until they
// expire, because checking them must not cost a database read a request.
import { checkPassword, dummyHash, hashPassword } from '../crypto/password.ts';
import { createSecret, digestOf } from '../crypto/secrets.ts';
import { signAccessToken } from '../crypto/tokens.ts';
import type { Database } from '../db/client.ts';
import { deleteFamily, findRefreshToken, insertFirstToken, rotateToken } from '../db/refresh-tokens.ts';
import { findUser, findUserByName, replacePasswordHash, type UserRow } from '../db/users.ts';
import { foldName } from '../domain/account-name.ts';
import { credentialRefused, RefusedError, type Outcome } from '../domain/refusal.ts';
import { log } from '../log.ts';
import type { ServiceContext } from './context.ts';
import { beginLoginAttempt, countFailure, resetFailures } from './login-attempts.ts';

const refreshTokenMs = 30 * 24 * 3_600_000;
// Phones refresh twice at once and lose answers: within this time a second use is an accident, later it is a theft.
const rotationGraceMs = 30_000;
// The form that `createRefreshToken` makes: 43 characters of 62 are 256 bits.
const refreshTokenPattern = /^rt_[A-Za-z0-9]{43}$/;

/**
 * `name` is a username or an email. An unknown one takes the same steps and the same time as a wrong password.
 * @throws RefusedError invalid_password, too_many_requests
 */
export async function logIn(
  context: ServiceContext,
  { name, password, clientAddress }: { name: string; password: string; clientAddress: string },
) {
  const database = context.primary();
  const foldedName = foldName(name);
  const user = await findUserByName(database, foldedName);
  const attempt = await beginLoginAttempt(database, user?.foldedEmail ?? foldedName, clientAddress);
  const { isRight, isOutdated } = await checkPassword(password, user?.passwordHash ?? dummyHash);
  if (user === undefined || !isRight) {
    await countFailure(database, attempt);
    const problem = user === undefined ? 'unknown_account' : 'wrong';
    throw new RefusedError(credentialRefused('account_password', problem));
  }
  await resetFailures(database, attempt);
  const passwordHash = isOutdated ? await renewHash(database, user, password) : user.passwordHash;
  const pair = await startSession(context, database, user.id, passwordHash);
  return { user: { userId: user.id, username: user.username, email: user.email }, ...pair };
}

/**
 * A fresh pair for a refresh token. One that was used before ends its session, unless that was moments ago.
 * @throws RefusedError unauthorized
 */
export async function refreshSession(context: ServiceContext, refreshToken: string) {
  if (!refreshTokenPattern.test(refreshToken)) throw new RefusedError(credentialRefused('refresh_token', 'malformed'));
  const database = context.primary();
  const nowMs = Date.now();
  const [hash, next] = await Promise.all([digestOf(refreshToken), createRefreshToken(nowMs)]);
  const rotated = await rotateToken(database, hash, next, nowMs, rotationGraceMs);
  if (rotated === undefined) {
    const known = await findRefreshToken(database, hash);
    if (known !== undefined && known.rotatedAt !== null) {
      await deleteFamily(database, known.family);
      log('warn', 'refresh token reused, session ended', { userId: known.userId });
    }
    const problem = known === undefined ? 'wrong' : known.rotatedAt === null ? 'expired' : 'reused';
    throw new RefusedError(credentialRefused('refresh_token', problem));
  }
  return createPair(context, rotated.userId, rotated.family, next.refreshToken);
}

/**
 * Ends the session of the refresh token, or else that of the bearer token.
 * @throws RefusedError unauthorized when neither names a session
 */
export async function logOut(
  context: ServiceContext,
  refreshToken: string | undefined,
  bearer: Outcome<{ sessionId: string }>,
): Promise<void> {
  const database = context.primary();
  const known = refreshToken === undefined ? undefined : await findRefreshToken(database, await digestOf(refreshToken));
  if (known === undefined && !bearer.ok) {
    throw new RefusedError(refreshToken === undefined ? bearer.refusal : credentialRefused('refresh_token', 'wrong'));
  }
  const family = known?.family ?? (bearer.ok ? bearer.value.sessionId : undefined);
  if (family !== undefined) await deleteFamily(database, family);
}

async function startSession(context: ServiceContext, database: Database, userId: number, passwordHash: string) {
  const createdAt = Date.now();
  const { refreshToken, hash, expiresAt } = await createRefreshToken(createdAt);
  const family = crypto.randomUUID();
  if (!(await insertFirstToken(database, { hash, family, userId, createdAt, expiresAt }, passwordHash))) {
    throw new RefusedError(credentialRefused('account_password', 'revoked'));
  }
  return createPair(context, userId, family, refreshToken);
}

async function createPair({ config }: ServiceContext, userId: number, family: string, refreshToken: string) {
  return { token: await signAccessToken(config, userId, family), refreshToken, expiresIn: config.accessTokenSeconds };
}

async function createRefreshToken(nowMs: number) {
  const refreshToken = createSecret('rt_', 43);
  return { refreshToken, hash: await digestOf(refreshToken), expiresAt: nowMs + refreshTokenMs };
}

/** The hash in effect now: one replaced meanwhile is taken only where it is of the same password. */
async function renewHash(database: Database, user: UserRow, password: string): Promise<string> {
  const renewed = await hashPassword(password);
  if (await replacePasswordHash(database, user, renewed)) return renewed;
  const currentHash = (await findUser(database, user.id))?.passwordHash ?? '';
  return (await checkPassword(password, currentHash)).isRight ? currentHash : user.passwordHash;
}
