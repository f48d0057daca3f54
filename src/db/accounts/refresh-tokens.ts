// Queries on sessions: one row for all refresh tokens that descend from one login, of which only digests are stored; and the
// change of a password, which ends sessions and login devices in the same transaction.
import { and, desc, eq, gt, ne, sql } from 'drizzle-orm';
import type { PageRequest } from '../../domain/pagination.ts';
import type { Rotation } from '../../domain/token-rotation.ts';
import { runTogether, type Database } from '../client.ts';
import { purge } from '../expired-rows.ts';
import { insertSelect } from '../insert.ts';
import { countOf, readPage } from '../pages.ts';
import { loginDevices, refreshTokens, users } from '../schema/accounts.ts';

type Session = {
  family: string;
  userId: number;
  digest: string;
  rotations: Rotation[];
  expiresAt: number;
};

export type SessionClient = { clientAddress: string; userAgent: string };

/** False when the password was changed meanwhile: no session of the old password survives the change. */
export async function insertSession(
  database: Database,
  session: Omit<Session, 'rotations'> & SessionClient & { createdAt: number },
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
  const row = await database.select().from(refreshTokens).where(eq(refreshTokens.family, family)).get();
  return row && { ...row, digest: row.hash, rotations: row.rotations ?? [] };
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

export async function deleteFamily(database: Database, family: string): Promise<void> {
  await database.delete(refreshTokens).where(eq(refreshTokens.family, family));
}

export async function listSessions(database: Database, userId: number, nowMs: number, page: PageRequest) {
  const live = and(eq(refreshTokens.userId, userId), gt(refreshTokens.expiresAt, nowMs));
  const { family, createdAt, rotatedAt, expiresAt, clientAddress, userAgent } = refreshTokens;
  const rows = database
    .select({ family, createdAt, rotatedAt, expiresAt, clientAddress, userAgent })
    .from(refreshTokens)
    .where(live)
    .orderBy(desc(expiresAt));
  return readPage(database, countOf(database, refreshTokens, live), rows.$dynamic(), page);
}

export async function deleteSessionOf(database: Database, userId: number, family: string): Promise<boolean> {
  const ended = await database
    .delete(refreshTokens)
    .where(and(eq(refreshTokens.family, family), eq(refreshTokens.userId, userId)))
    .returning({ family: refreshTokens.family });
  return ended.length > 0;
}

/** All of the user but one, or all. @returns how many */
export async function deleteSessionsOf(database: Database, userId: number, kept: string | undefined): Promise<number> {
  const ofUser = eq(refreshTokens.userId, userId);
  const ended = await database
    .delete(refreshTokens)
    .where(kept === undefined ? ofUser : and(ofUser, ne(refreshTokens.family, kept)))
    .returning({ family: refreshTokens.family });
  return ended.length;
}

/** Replaces the password hash and ends every family and device but one, in one transaction; false after a concurrent change. */
export async function replacePassword(
  database: Database,
  change: { userId: number; oldHash: string; newHash: string; keptFamily: string; keptDevice: string },
): Promise<boolean> {
  const isChanged = sql`exists (select 1 from ${users} where id = ${change.userId} and password_hash = ${change.newHash})`;
  const [changed] = await runTogether<[unknown, unknown, unknown]>(database, [
    sql`
      update ${users} set password_hash = ${change.newHash}
      where id = ${change.userId} and password_hash = ${change.oldHash}`,
    sql`
      delete from ${refreshTokens}
      where user_id = ${change.userId} and family <> ${change.keptFamily} and ${isChanged}`,
    sql`
      delete from ${loginDevices}
      where user_id = ${change.userId} and hash <> ${change.keptDevice} and ${isChanged}`,
  ]);
  return changed.meta.changes === 1;
}
