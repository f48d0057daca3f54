// Queries on users, whose names are compared by their folded form (domain/names.ts), on a limit as it counts for one of them, and on tokens
// that they get by mail or from the operator, of which only digests are stored. What a password reset ends is in refresh-tokens.ts.
import { eq, or, sql, type SQL, type SQLWrapper, and, gt } from 'drizzle-orm';
import { findRow, insertSelect, type Database, runTogether } from '../client.ts';
import { users, userLimits, emailVerifications, passwordResets } from '../schema/accounts.ts';
import type { Limits } from '../../limits.ts';

export type UserRow = typeof users.$inferSelect;

export async function findUser(database: Database, userId: number): Promise<UserRow | undefined> {
  return findRow(database, users, eq(users.id, userId));
}

export async function findUserByName(database: Database, foldedName: string): Promise<UserRow | undefined> {
  return findRow(database, users, or(eq(users.foldedUsername, foldedName), eq(users.foldedEmail, foldedName)));
}

export async function listUsersDisabledSince(database: Database, sinceMs: number): Promise<number[]> {
  const rows = await database.all<{ id: number }>(sql`select id from ${users} where disabled_at > ${sinceMs}`);
  return rows.map(({ id }) => id);
}

/** One statement, so that of two simultaneous registrations one fails. Undefined: a name is taken. */
export async function insertUser(database: Database, user: Omit<UserRow, 'id' | 'disabledAt'>) {
  const names = sql`(${user.foldedUsername}, ${user.foldedEmail})`;
  const [row] = await database.all<{ id: number }>(sql`
    ${insertSelect(users, user)}
    where not exists (select 1 from ${users} where ${users.foldedUsername} in ${names})
      and not exists (select 1 from ${users} where ${users.foldedEmail} in ${names})
    returning id`);
  return row?.id;
}

export type UserLimits<Name extends keyof Limits> = Pick<Limits, Name>;

export function limitOf<Name extends keyof Limits>(
  userId: SQLWrapper | number,
  name: Name,
  limits: UserLimits<Name>,
): SQL {
  const own = sql`select value from ${userLimits} where user_id = ${userId} and name = ${name}`;
  return sql`coalesce((${own}), ${limits[name]})`;
}

type MailedToken = typeof passwordResets.$inferSelect;

const tables = { passwordReset: passwordResets, emailVerification: emailVerifications };

/** False if the user has `max` of this purpose since `sinceMs`, or is disabled. */
export async function insertMailedToken(
  database: Database,
  purpose: keyof typeof tables,
  token: MailedToken,
  { max, sinceMs }: { max: number; sinceMs: number },
): Promise<boolean> {
  const { userId } = token;
  const table = tables[purpose];
  const recent = sql`(select count(*) from ${table} where user_id = ${userId} and created_at > ${sinceMs})`;
  const inserted = await database.run(sql`
    ${insertSelect(table, token)} from ${users}
    where id = ${userId} and disabled_at is null and ${recent} < ${max}`);
  return inserted.meta.changes === 1;
}

export async function findPasswordReset(database: Database, hash: string, nowMs: number) {
  return findRow(database, passwordResets, and(eq(passwordResets.hash, hash), gt(passwordResets.expiresAt, nowMs)));
}

/** Uses up every such token of the user, whose id it returns. Undefined for a token that is unknown, used or expired. */
export async function useEmailVerification(database: Database, hash: string, nowMs: number) {
  const holder = sql`(select user_id from ${emailVerifications} where hash = ${hash} and expires_at > ${nowMs})`;
  const [proven] = await runTogether<[{ id: number }, unknown]>(database, [
    sql`update ${users} set email_verified_at = ${nowMs} where id = ${holder} and disabled_at is null returning id`,
    sql`delete from ${emailVerifications} where user_id = ${holder}`,
  ]);
  return proven.results[0]?.id;
}
