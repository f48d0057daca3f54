// Queries on the tokens of password resets, of which only digests are stored.
import { and, eq, gt, sql } from 'drizzle-orm';
import type { Database } from '../client.ts';
import { insertSelect } from '../insert.ts';
import { passwordResets, users } from '../schema/accounts.ts';

type PasswordReset = typeof passwordResets.$inferSelect;

/** False if the user has `max` since `sinceMs`, or is disabled. */
export async function insertPasswordReset(database: Database, reset: PasswordReset, max: number, sinceMs: number) {
  const { userId } = reset;
  const recent = sql`
    (select count(*) from ${passwordResets} where user_id = ${userId} and created_at > ${sinceMs})`;
  const inserted = await database.run(sql`
    ${insertSelect(passwordResets, reset)} from ${users}
    where id = ${userId} and disabled_at is null and ${recent} < ${max}`);
  return inserted.meta.changes === 1;
}

export async function findPasswordReset(database: Database, hash: string, nowMs: number) {
  return database
    .select()
    .from(passwordResets)
    .where(and(eq(passwordResets.hash, hash), gt(passwordResets.expiresAt, nowMs)))
    .get();
}
