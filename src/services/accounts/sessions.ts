// Logging in, refreshing, logging out; listing and ending one's own sessions. A session is a family of refresh tokens, of which
// one is current. Its access tokens read and control until they expire; for anything else the session has to be open.
import * as secrets from '../../crypto/secrets.ts';
import { signAccessToken } from '../../crypto/tokens.ts';
import * as refreshTokens from '../../db/accounts/refresh-tokens.ts';
import { findUserByName, type UserRow } from '../../db/accounts/users.ts';
import { foldName } from '../../domain/names.ts';
import { credentialRefused, notFound, RefusedError, unwrap, type Outcome } from '../../domain/refusal.ts';
import { addRotation, judgeToken } from '../../domain/token-rotation.ts';
import type { ServiceContext } from '../../context.ts';
import { provePassword, type InSession } from './accounts.ts';
import { recordSecurityEvent } from './security-events.ts';
import { isFamiliarClient, passwordQueueOf, rememberClient } from '../../pacing/password-queue.ts';
import { dayMs, minuteMs, toIso } from '../../domain/time.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import type { LoginBody } from '../../protocol/http/users.ts';

const refreshTokenMs = 30 * dayMs;
/** A stolen access token must not become permanent access: what would do that needs the user himself, this lately. */
const confirmationMs = 5 * minuteMs;
// The family, 22 characters, and a secret: 43 characters of 62 are 256 bits. A code over both follows.
const refreshTokenPattern = /^rt_([A-Za-z0-9]{22})[A-Za-z0-9]{69}$/;
const refreshTokenUse = ['latchwork refresh token'];

/**
 * An unknown name takes the same steps and time as a wrong password. `deviceToken`: of an earlier login of this client; null asks
 * for one. A client that omits it gets none.
 */
export async function logIn(context: ServiceContext, login: LoginBody, userAgent: string) {
  const { username, email, password, deviceToken } = login;
  const { clientAddress } = context;
  const foldedName = foldName(username ?? email ?? '');
  const shownToken = deviceToken ?? undefined;
  const clientDigest = await secrets.digestOf(`login client ${foldedName} ${clientAddress}`);
  const isFamiliar = isFamiliarClient(clientDigest);
  const queue = passwordQueueOf(context.config);
  if (shownToken === undefined && !isFamiliar) queue.refuseIfFull({ isKnown: false, address: clientAddress });
  const named = await findUserByName(context.primary(), foldedName);
  const client = { account: named?.foldedEmail ?? foldedName, shownToken, isFamiliar };
  const { user, attempt } = await provePassword(context, named, { ...client, password });
  rememberClient(clientDigest);
  if (user.disabledAt !== null) throw new RefusedError({ kind: 'account_disabled', userId: user.id });
  const pair = await startSession(context, user, userAgent);
  recordSecurityEvent(context, { userId: user.id, kind: 'signed_in' });
  const session = { user: { userId: user.id, username: user.username, email: user.email }, ...pair };
  if (deviceToken === undefined) return session;
  return { ...session, deviceToken: await attempt.trustDevice(user.id) };
}

/** A token that was exchanged moments ago gets the same answer again. An older token ends its session. */
export async function refreshSession(context: ServiceContext, refreshToken: string, userAgent: string) {
  const opened = await openRefreshToken(context, refreshToken);
  if (opened === undefined) throw new RefusedError(credentialRefused('refresh_token', 'malformed'));
  const { family, secret } = opened;
  const database = context.primary();
  const digest = await secrets.digestOf(secret);
  for (;;) {
    const nowMs = Date.now();
    const session = await refreshTokens.findSession(database, family);
    if (session === undefined) throw new RefusedError(credentialRefused('refresh_token', 'wrong'));
    if (session.expiresAt <= nowMs) throw new RefusedError(credentialRefused('refresh_token', 'expired'));
    const judgement = judgeToken(session, (stored) => secrets.isEqualDigest(stored, digest), nowMs);
    if (judgement.kind === 'reused') {
      await refreshTokens.deleteSessionOf(database, session.userId, await sessionIdOf(family));
      const detail = { because: 'refresh_token_reused' };
      recordSecurityEvent(context, { userId: session.userId, kind: 'session_ended', detail });
      throw new RefusedError(credentialRefused('refresh_token', 'reused'));
    }
    if (judgement.kind === 'repeated') {
      let current = secret;
      for (const salt of judgement.salts) current = await successorOf(family, current, salt);
      return createPair(context, session.userId, family, current);
    }
    const salt = secrets.createSecret('', 22);
    const next = await successorOf(family, secret, salt);
    const isRotated = await refreshTokens.rotateToken(database, session, {
      clientAddress: context.clientAddress,
      userAgent,
      digest: await secrets.digestOf(next),
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
  bearer: Outcome<InSession>,
): Promise<void> {
  const database = context.primary();
  const named = refreshToken === undefined ? undefined : await openRefreshToken(context, refreshToken);
  const stored = named === undefined ? undefined : await refreshTokens.findSession(database, named.family);
  if (stored === undefined && !bearer.ok) {
    throw new RefusedError(refreshToken === undefined ? bearer.refusal : credentialRefused('refresh_token', 'wrong'));
  }
  const ended = stored && { userId: stored.userId, sessionId: await sessionIdOf(stored.family) };
  const { userId, sessionId } = ended ?? unwrap(bearer);
  if (!(await refreshTokens.deleteSessionOf(database, userId, sessionId))) return;
  recordSecurityEvent(context, { userId, kind: 'session_ended', detail: { because: 'signed_out' } });
}

/**
 * One row by its index. `isConfirmed`: its user has to have logged in or shown the password within five minutes.
 * @throws RefusedError `credential_refused`, `confirmation_required`
 */
export async function requireOpenSession(context: ServiceContext, session: InSession, isConfirmed: boolean) {
  const nowMs = Date.now();
  const confirmedAtMs = await refreshTokens.findConfirmation(context.primary(), session, nowMs);
  if (confirmedAtMs === undefined) throw new RefusedError(credentialRefused('session', 'revoked'));
  if (isConfirmed && confirmedAtMs <= nowMs - confirmationMs) throw new RefusedError({ kind: 'confirmation_required' });
}

async function startSession(context: ServiceContext, { id: userId, passwordHash }: UserRow, userAgent: string) {
  const { sessionsPerUser } = context.config.limits;
  const createdAt = Date.now();
  const family = secrets.createSecret('', 22);
  const secret = `rt_${family}${secrets.createSecret('', 43)}`;
  const session = {
    digest: await secrets.digestOf(secret),
    family,
    sessionId: await sessionIdOf(family),
    userId,
    createdAt,
    expiresAt: createdAt + refreshTokenMs,
    clientAddress: context.clientAddress,
    userAgent,
  };
  if (!(await refreshTokens.insertSession(context.primary(), session, passwordHash, sessionsPerUser))) {
    throw new RefusedError(credentialRefused('account_password', 'revoked'));
  }
  return createPair(context, userId, family, secret);
}

async function createPair({ config }: ServiceContext, userId: number, family: string, secret: string) {
  const token = await signAccessToken(config, userId, await sessionIdOf(family));
  const refreshToken = await secrets.certifySecret(config.messagingSecrets, refreshTokenUse, secret);
  return { token, refreshToken, expiresIn: config.accessTokenSeconds };
}

/** Without its code, which another key may make anew. Undefined, and no row is read, for an invented token. */
async function openRefreshToken({ config }: ServiceContext, refreshToken: string) {
  const family = refreshTokenPattern.exec(refreshToken)?.[1];
  if (family === undefined) return undefined;
  const secret = await secrets.openCertified(config.messagingSecrets, refreshTokenUse, refreshToken);
  return secret === undefined ? undefined : { family, secret };
}

async function successorOf(family: string, secret: string, salt: string): Promise<string> {
  return `rt_${family}${await secrets.deriveSecret(secret, salt)}`;
}

export async function pageSessions(context: ServiceContext, caller: InSession, page: PageRequest) {
  const { total, rows } = await refreshTokens.listSessions(context.primary(), caller.userId, Date.now(), page);
  const list = rows.map(({ sessionId, createdAt, rotatedAt, expiresAt, clientAddress, userAgent }) => ({
    sessionId,
    createdAt: toIso(createdAt),
    lastUsedAt: toIso(rotatedAt ?? createdAt),
    expiresAt: toIso(expiresAt),
    clientAddress: clientAddress === 'unknown' ? null : clientAddress,
    userAgent: userAgent === '' ? null : userAgent,
    isCurrent: sessionId === caller.sessionId,
  }));
  return { list, total, ...page };
}

export async function endSession(context: ServiceContext, { userId }: InSession, sessionId: string) {
  if (!(await refreshTokens.deleteSessionOf(context.primary(), userId, sessionId))) {
    throw notFound('session', sessionId);
  }
  recordSecurityEvent(context, { userId, kind: 'session_ended', detail: { because: 'ended_by_user' } });
  return { sessionId };
}

export async function endSessions(context: ServiceContext, caller: InSession, isCurrentKept: boolean) {
  const kept = isCurrentKept ? caller.sessionId : undefined;
  const ended = await refreshTokens.deleteSessionsOf(context.primary(), caller.userId, kept);
  const detail = { because: 'ended_by_user', sessions: ended };
  if (ended > 0) recordSecurityEvent(context, { userId: caller.userId, kind: 'session_ended', detail });
  return { ended };
}

/** In access tokens, lists and addresses, which are logged: it names the session, and no token follows from it. */
async function sessionIdOf(family: string): Promise<string> {
  return (await secrets.digestOf(`session ${family}`)).slice(0, 24);
}
