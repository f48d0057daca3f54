// D1 as the Worker is given it, which notes what is asked of it: the text of each statement, and the rows that batches read
// and wrote. Asserts nothing.
import { env } from 'cloudflare:workers';
import { fetchWith } from './limited.ts';

export class RecordedDatabase {
  readonly statements = new Set<string>();
  rowsRead = 0;
  rowsWritten = 0;

  readonly binding = {
    withSession: (consistency: D1SessionConstraint) => {
      const session = env.DB.withSession(consistency);
      return {
        prepare: (statement: string) => {
          this.statements.add(statement);
          return session.prepare(statement);
        },
        batch: async (prepared: D1PreparedStatement[]) => {
          const results = await session.batch(prepared);
          for (const { meta } of results) {
            this.rowsRead += meta.rows_read;
            this.rowsWritten += meta.rows_written;
          }
          return results;
        },
      };
    },
  } as unknown as D1Database;

  /** A request below /api/v1 to a Worker with this database. */
  fetch(method: string, path: string, headers: Record<string, string>, body?: object): Promise<Response> {
    return fetchWith({ DB: this.binding }, method, path, headers, body);
  }
}
