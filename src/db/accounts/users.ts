// Queries on users. Names are compared by their folded form (domain/names.ts).
import { eq, or, sql } from 'drizzle-orm';
import { findRow, insertSelect, type Database } from '../client.ts';
import { users } from '../schema/accounts.ts';

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
