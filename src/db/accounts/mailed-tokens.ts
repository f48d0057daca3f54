// Queries on tokens that users get by mail or from the operator, of which only digests are stored. What a password reset ends is
// in refresh-tokens.ts.
import { and, eq, gt, sql } from 'drizzle-orm';
import { findRow, insertSelect, runTogether, type Database } from '../client.ts';
import { emailVerifications, passwordResets, users } from '../schema/accounts.ts';

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
