// The D1 statements that the service's own queries send, without a database: for the Worker that does nothing else.
import { openDatabase, type Database } from '../../src/db/client.ts';

export type Statement = { sql: string; params: unknown[] };

/** Runs a query whose answers are empty. */
export async function recordStatements(query: (db: Database) => Promise<unknown>): Promise<Statement[]> {
  const statements: Statement[] = [];
  const nothing = { results: [], success: true, meta: {} };
  const prepare = (sql: string) => ({
    bind: (...params: unknown[]) => {
      statements.push({ sql, params });
      return {
        all: () => Promise.resolve(nothing),
        raw: () => Promise.resolve([]),
        run: () => Promise.resolve(nothing),
      };
    },
  });
  const session = { prepare, batch: (prepared: unknown[]) => Promise.resolve(prepared.map(() => nothing)) };
  const binding = { withSession: () => session };
  await query(openDatabase(binding));
  return statements;
}
