// D1 as the Worker is given it, which notes what is asked of it: the text of each statement, and the rows that batches read
// and wrote. Asserts nothing.
import { env } from 'cloudflare:workers';
import { readAnswer, type Answer } from './clients/client.ts';
import { sendWith } from './limited.ts';

export class RecordedDatabase {
  readonly statements: string[] = [];
  rowsRead = 0;
  rowsWritten = 0;

  readonly binding = {
    withSession: (consistency: D1SessionConstraint) => {
      const session = env.DB.withSession(consistency);
      return {
        prepare: (statement: string) => {
          this.statements.push(statement);
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

  /** How many statements held `part`. */
  count(part: string): number {
    return this.statements.filter((statement) => statement.includes(part)).length;
  }

  /** A request below /api/v1 to a Worker with this database. */
  fetch(method: string, path: string, headers: Record<string, string>, body?: object): Promise<Response> {
    return sendWith({ DB: this.binding }, method, path, { headers, body });
  }
}

/** What a GET answers the user, and how many rows it read. */
export async function readRows<T>({ token }: { token: string }, path: string): Promise<Answer<T> & { rows: number }> {
  const database = new RecordedDatabase();
  const answer = await readAnswer<T>(await database.fetch('GET', path, { Authorization: `Bearer ${token}` }));
  return { ...answer, rows: database.rowsRead };
}
