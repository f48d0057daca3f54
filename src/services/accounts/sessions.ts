// Logging in, refreshing, logging out; listing and ending one's own sessions. A session is a family of refresh tokens, of which
// one is current; its access tokens are valid until they expire: checking them must not cost a database read a request.
import { checkPassword, dummyHash } from '../../crypto/password.ts';
import { createSecret, deriveSecret, digestOf, isEqualDigest } from '../../crypto/secrets.ts';
import { signAccessToken } from '../../crypto/tokens.ts';
import type { Database } from '../../db/client.ts';
import {
  deleteFamily,
  deleteSessionOf,
  deleteSessionsOf,
  findSession,
  insertSession,
  listSessions,
  rotateToken,
  type SessionClient,
} from '../../db/accounts/refresh-tokens.ts';
import { findUserByName } from '../../db/accounts/users.ts';
import { foldName } from '../../domain/names.ts';
import { credentialRefused, RefusedError, type Outcome } from '../../domain/refusal.ts';
import { addRotation, judgeToken } from '../../domain/token-rotation.ts';
import { log } from '../../log.ts';
import type { ServiceContext } from '../../context.ts';
import { beginLoginAttempt, countFailure, resetFailures, trustDevice } from './login-attempts.ts';
import { isFamiliarClient, passwordQueueOf, rememberClient } from '../../pacing/password-queue.ts';
import { dayMs, toIso } from '../../domain/time.ts';
import type { PageRequest } from '../../domain/pagination.ts';

const refreshTokenMs = 30 * dayMs;
// The id of the session, 22 characters, and a secret: 43 characters of 62 are 256 bits.
const refreshTokenPattern = /^rt_([A-Za-z0-9]{22})[A-Za-z0-9]{43}$/;

/** `deviceToken`: of an earlier login of this client; null asks for one. A client that omits it gets none. */
type Login = SessionClient & { name: string; password: string; deviceToken?: string | null | undefined };

/** `name` is a username or an email. An unknown name takes the same steps and time as a wrong password. */
export async function logIn(context: ServiceContext, login: Login) {
  const { name, password, clientAddress, deviceToken } = login;
  const foldedName = foldName(name);
  const shownToken = deviceToken ?? undefined;
  const clientDigest = await digestOf(`login client ${foldedName} ${clientAddress}`);
  const isFamiliar = isFamiliarClient(clientDigest);
  const queue = passwordQueueOf(context.config);
  if (shownToken === undefined && !isFamiliar) queue.refuseIfFull({ isKnown: false, address: clientAddress });
  const database = context.primary();
  const user = await findUserByName(database, foldedName);
  const client = { account: user?.foldedEmail ?? foldedName, userId: user?.id, clientAddress, shownToken };
  const attempt = await beginLoginAttempt(database, context.config.limits, client);
  const hashClient = { isKnown: attempt.isKnownDevice || isFamiliar, address: clientAddress };
  const isRight = await queue.run(hashClient, () => checkPassword(password, user?.passwordHash ?? dummyHash));
  if (user === undefined || !isRight) {
    await countFailure(database, attempt);
    const problem = user === undefined ? 'unknown_account' : 'wrong';
    throw new RefusedError(credentialRefused('account_password', problem));
  }
  await resetFailures(database, attempt);
  rememberClient(clientDigest);
  if (user.disabledAt !== null) throw new RefusedError({ kind: 'account_disabled', userId: user.id });
  const { passwordHash } = user;
  const pair = await startSession(context, database, { userId: user.id, passwordHash, login });
  const session = { user: { userId: user.id, username: user.username, email: user.email }, ...pair };
  if (deviceToken === undefined) return session;
  return { ...session, deviceToken: await trustDevice(database, attempt, user.id, shownToken) };
}

/** A token that was exchanged moments ago gets the same answer again. An older token ends its session. */
export async function refreshSession(context: ServiceContext, refreshToken: string, client: SessionClient) {
  const family = familyOf(refreshToken);
  if (family === undefined) throw new RefusedError(credentialRefused('refresh_token', 'malformed'));
  const database = context.primary();
  const digest = await digestOf(refreshToken);
  for (;;) {
    const nowMs = Date.now();
    const session = await findSession(database, family);
    if (session === undefined) throw new RefusedError(credentialRefused('refresh_token', 'wrong'));
    if (session.expiresAt <= nowMs) throw new RefusedError(credentialRefused('refresh_token', 'expired'));
    const judgement = judgeToken(session, (stored) => isEqualDigest(stored, digest), nowMs);
    if (judgement.kind === 'reused') {
      await deleteFamily(database, family);
      log('warn', 'refresh token reused, session ended', { userId: session.userId });
      throw new RefusedError(credentialRefused('refresh_token', 'reused'));
    }
    if (judgement.kind === 'repeated') {
      let current = refreshToken;
      for (const salt of judgement.salts) current = await successorOf(current, salt);
      return createPair(context, session.userId, family, current);
    }
    const salt = createSecret('', 22);
    const next = await successorOf(refreshToken, salt);
    const isRotated = await rotateToken(database, session, {
      ...client,
      digest: await digestOf(next),
      rotations: addRotation(session.rotations, { digest, salt, atMs: nowMs }),
      rotatedAt: nowMs,
      expiresAt: nowMs + refreshTokenMs,
    });
    if (isRotated) return createPair(context, session.userId, family, next);
  }
}

/** Ends the session of the refresh token, or else that of the bearer token. */
export async function logOut(
  context: ServiceContext,
  refreshToken: string | undefined,
  bearer: Outcome<{ sessionId: string }>,
): Promise<void> {
  const database = context.primary();
  const named = refreshToken === undefined ? undefined : familyOf(refreshToken);
  const stored = named === undefined ? undefined : await findSession(database, named);
  if (stored === undefined && !bearer.ok) {
    throw new RefusedError(refreshToken === undefined ? bearer.refusal : credentialRefused('refresh_token', 'wrong'));
  }
  const family = stored?.family ?? (bearer.ok ? bearer.value.sessionId : undefined);
  if (family !== undefined) await deleteFamily(database, family);
}

async function startSession(
  context: ServiceContext,
  database: Database,
  { userId, passwordHash, login }: { userId: number; passwordHash: string; login: SessionClient },
) {
  const createdAt = Date.now();
  const family = createSecret('', 22);
  const refreshToken = `rt_${family}${createSecret('', 43)}`;
  const session = {
    digest: await digestOf(refreshToken),
    family,
    userId,
    createdAt,
    expiresAt: createdAt + refreshTokenMs,
    clientAddress: login.clientAddress,
    userAgent: login.userAgent,
  };
  if (!(await insertSession(database, session, passwordHash, context.config.limits.sessionsPerUser))) {
    throw new RefusedError(credentialRefused('account_password', 'revoked'));
  }
  return createPair(context, userId, family, refreshToken);
}

async function createPair({ config }: ServiceContext, userId: number, family: string, refreshToken: string) {
  return { token: await signAccessToken(config, userId, family), refreshToken, expiresIn: config.accessTokenSeconds };
}

function familyOf(refreshToken: string): string | undefined {
  return refreshTokenPattern.exec(refreshToken)?.[1];
}

async function successorOf(refreshToken: string, salt: string): Promise<string> {
  return `rt_${familyOf(refreshToken) ?? ''}${await deriveSecret(refreshToken, salt)}`;
}

type InSession = { userId: number; sessionId: string };

export async function pageSessions(context: ServiceContext, caller: InSession, page: PageRequest) {
  const { total, rows } = await listSessions(context.primary(), caller.userId, Date.now(), page);
  const list = await Promise.all(
    rows.map(async ({ family, createdAt, rotatedAt, expiresAt, clientAddress, userAgent }) => ({
      sessionId: await publicIdOf(family),
      createdAt: toIso(createdAt),
      lastUsedAt: toIso(rotatedAt ?? createdAt),
      expiresAt: toIso(expiresAt),
      clientAddress: clientAddress === 'unknown' ? null : clientAddress,
      userAgent: userAgent === '' ? null : userAgent,
      isCurrent: family === caller.sessionId,
    })),
  );
  return { list, total, ...page };
}

export async function endSession(context: ServiceContext, { userId }: InSession, sessionId: string) {
  const database = context.primary();
  const { sessionsPerUser } = context.config.limits;
  const { rows } = await listSessions(database, userId, Date.now(), { page: 1, size: sessionsPerUser });
  const ids = await Promise.all(rows.map(({ family }) => publicIdOf(family)));
  const family = rows[ids.indexOf(sessionId)]?.family;
  if (family === undefined || !(await deleteSessionOf(database, userId, family))) {
    throw new RefusedError({ kind: 'not_found', what: 'session', id: sessionId });
  }
  return { sessionId };
}

export async function endSessions(context: ServiceContext, caller: InSession, isCurrentKept: boolean) {
  const kept = isCurrentKept ? caller.sessionId : undefined;
  return { ended: await deleteSessionsOf(context.primary(), caller.userId, kept) };
}

/** Not the stored name: addresses are logged, and with the stored name an invented token would end the session. */
async function publicIdOf(family: string): Promise<string> {
  return (await digestOf(`session ${family}`)).slice(0, 24);
}
