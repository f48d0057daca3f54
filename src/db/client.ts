// Opens D1 for one request: `first-primary` for reads that decide (login, key check, activation), `first-unconstrained`
// for lists, which may read from a replica that lags.
import type { SQLWrapper } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { SQLiteAsyncDialect } from 'drizzle-orm/sqlite-core';

export type Database = ReturnType<typeof openDatabase>;

export function openDatabase(binding: D1Database, consistency: 'first-primary' | 'first-unconstrained') {
  // Drizzle calls `prepare` and `batch` only; the type of a session lacks the other members.
  const session = binding.withSession(consistency) as unknown as D1Database;
  // Without the tables: Drizzle would read their relations, which no query here uses, once more for every request.
  return drizzle(session);
}

const dialect = new SQLiteAsyncDialect();

/** Runs raw statements with values as one transaction, which Drizzle's `batch` does not accept. */
export async function runTogether<Rows extends unknown[]>(
  database: Database,
  statements: { [Index in keyof Rows]: SQLWrapper },
): Promise<{ [Index in keyof Rows]: D1Result<Rows[Index]> }> {
  const prepared = (statements as SQLWrapper[]).map((statement) => {
    const { sql, params } = dialect.sqlToQuery(statement.getSQL());
    return database.$client.prepare(sql).bind(...params);
  });
  return (await database.$client.batch(prepared)) as { [Index in keyof Rows]: D1Result<Rows[Index]> };
}
