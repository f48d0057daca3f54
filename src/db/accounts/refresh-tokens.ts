// Queries on sessions: one row for all refresh tokens that descend from one login, of which only digests are stored; and the
// change of a password, which ends sessions, API keys and login devices in the same transaction.
import { and, desc, eq, gt, isNull, sql, type SQL } from 'drizzle-orm';
import type { PageRequest } from '../../domain/pagination.ts';
import type { Rotation } from '../../domain/token-rotation.ts';
import { findRow, insertSelect, runTogether, type Database } from '../client.ts';
import { purge } from '../expired-rows.ts';
import { countOf, readPage } from '../pages.ts';
import { endKeys } from './api-keys.ts';
import { loginDevices, passwordResets, refreshTokens, users } from '../schema/accounts.ts';

type Row = typeof refreshTokens.$inferSelect;
type Session = Pick<Row, 'family' | 'userId' | 'expiresAt'> & { digest: string; rotations: Rotation[] };
type SessionClient = Pick<Row, 'clientAddress' | 'userAgent'>;

/** False when the password was changed meanwhile: no session of the old password survives the change. */
export async function insertSession(
  database: Database,
  session: Omit<Session, 'rotations'> & SessionClient & { sessionId: string; createdAt: number },
  passwordHash: string,
  maxSessions: number,
): Promise<boolean> {
  const [inserted] = await runTogether<[unknown, unknown, unknown]>(database, [
    sql`
      ${insertSelect(refreshTokens, { ...session, hash: session.digest })}
      from ${users} where id = ${session.userId} and password_hash = ${passwordHash} and disabled_at is null`,
    sql`
      delete from ${refreshTokens} where hash in (
        select hash from ${refreshTokens} where user_id = ${session.userId} and hash <> ${session.digest}
        order by expires_at desc limit -1 offset ${maxSessions - 1})`,
    purge(refreshTokens, session.createdAt),
  ]);
  return inserted.meta.changes === 1;
}

export async function findSession(database: Database, family: string): Promise<Session | undefined> {
  const row = await findRow(database, refreshTokens, eq(refreshTokens.family, family));
  return row && { ...row, digest: row.hash, rotations: row.rotations ?? [] };
}

/** When the user of an open session logged in or last showed the password; undefined if session or account has ended. */
export async function findConfirmation(
  database: Database,
  { userId, sessionId }: { userId: number; sessionId: string },
  nowMs: number,
): Promise<number | undefined> {
  const { createdAt, confirmedAt, expiresAt } = refreshTokens;
  const row = await database
    .select({ createdAt, confirmedAt })
    .from(refreshTokens)
    .innerJoin(users, and(eq(users.id, refreshTokens.userId), isNull(users.disabledAt)))
    .where(and(isSession(userId, sessionId), gt(expiresAt, nowMs)))
    .get();
  return row && Math.max(row.createdAt, row.confirmedAt ?? 0);
}

export async function confirmSession(database: Database, userId: number, sessionId: string, nowMs: number) {
  await database.update(refreshTokens).set({ confirmedAt: nowMs }).where(isSession(userId, sessionId));
}

export async function rotateToken(
  database: Database,
  { family, digest }: Session,
  next: SessionClient & { digest: string; rotations: Rotation[]; rotatedAt: number; expiresAt: number },
): Promise<boolean> {
  const [rotated] = await runTogether<[unknown, unknown]>(database, [
    sql`
      update ${refreshTokens} set hash = ${next.digest}, rotations = ${JSON.stringify(next.rotations)},
        rotated_at = ${next.rotatedAt}, expires_at = ${next.expiresAt},
        client_address = ${next.clientAddress}, user_agent = ${next.userAgent}
      where family = ${family} and hash = ${digest}`,
    purge(refreshTokens, next.rotatedAt),
  ]);
  return rotated.meta.changes === 1;
}

export async function listSessions(database: Database, userId: number, nowMs: number, page: PageRequest) {
  const live = and(eq(refreshTokens.userId, userId), gt(refreshTokens.expiresAt, nowMs));
  const { createdAt, rotatedAt, expiresAt, clientAddress, userAgent } = refreshTokens;
  // Sessions from before the column cannot be refreshed any more.
  const sessionId = sql<string>`coalesce(${refreshTokens.sessionId}, '')`.as('public_id');
  const rows = database
    .select({ sessionId, createdAt, rotatedAt, expiresAt, clientAddress, userAgent })
    .from(refreshTokens)
    .where(live)
    .orderBy(desc(expiresAt));
  return readPage(database, countOf(database, refreshTokens, live), rows.$dynamic(), page);
}

export async function deleteSessionOf(database: Database, userId: number, sessionId: string): Promise<boolean> {
  return (await deleteSessions(database, isSession(userId, sessionId))) > 0;
}

/** All of the user but one, or all. @returns how many */
export async function deleteSessionsOf(database: Database, userId: number, kept = ''): Promise<number> {
  return deleteSessions(database, and(eq(refreshTokens.userId, userId), isNotSession(kept)));
}

async function deleteSessions(database: Database, where: SQL | undefined): Promise<number> {
  return (await database.delete(refreshTokens).where(where).returning({ hash: refreshTokens.hash })).length;
}

function isSession(userId: number, sessionId: string): SQL | undefined {
  return and(eq(refreshTokens.sessionId, sessionId), eq(refreshTokens.userId, userId));
}

function isNotSession(sessionId: string): SQL {
  return sql`${refreshTokens.sessionId} is not ${sessionId}`;
}

/** `keyIds`: the API keys that ended. */
export type EndedAccess = { sessions: number; keyIds: string[] };

type PasswordChange = {
  userId: number;
  newHash: string;
  by: { oldHash: string } | { resetHash: string; provenAtMs: number | null };
  keptSession?: string;
  keptDevice?: string;
  endsSessions?: boolean;
  endsKeys?: boolean;
};

/**
 * Ends reset tokens, login devices and, unless told otherwise, sessions and keys, in one transaction. Undefined if another
 * change came first.
 */
export async function replacePassword(
  database: Database,
  { userId, newHash, by, keptSession = '', keptDevice = '', endsSessions = true, endsKeys = true }: PasswordChange,
): Promise<EndedAccess | undefined> {
  const provenAtMs = 'resetHash' in by ? by.provenAtMs : null;
  const isAllowed =
    'oldHash' in by
      ? sql`password_hash = ${by.oldHash}`
      : sql`exists (select 1 from ${passwordResets} where hash = ${by.resetHash})`;
  const isChanged = sql`exists (select 1 from ${users} where id = ${userId} and password_hash = ${newHash})`;
  const ofUser = sql`user_id = ${userId} and ${isChanged}`;
  const [changed, sessions, ...others] = await runTogether<unknown[]>(database, [
    sql`
      update ${users} set password_hash = ${newHash}, email_verified_at = coalesce(email_verified_at, ${provenAtMs})
      where id = ${userId} and ${isAllowed}`,
    sql`
      delete from ${refreshTokens} where ${ofUser} and ${isNotSession(keptSession)} and ${Number(endsSessions)}
      returning hash`,
    sql`delete from ${loginDevices} where ${ofUser} and hash <> ${keptDevice}`,
    sql`delete from ${passwordResets} where ${ofUser}`,
    ...endKeys(sql`${ofUser} and ${Number(endsKeys)}`),
  ]);
  if (changed?.meta.changes !== 1) return undefined;
  const keys = (others.at(-1)?.results ?? []) as { key_id: string }[];
  return { sessions: sessions?.results.length ?? 0, keyIds: keys.map(({ key_id: keyId }) => keyId) };
}
