// Queries on users, and a limit as it counts for one of them. Names are compared by their folded form (domain/names.ts).
import { eq, or, sql, type SQL, type SQLWrapper } from 'drizzle-orm';
import { findRow, insertSelect, type Database } from '../client.ts';
import { users, userLimits } from '../schema/accounts.ts';
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
