// Opens D1 for one request: `first-primary` for reads that decide (login, key check, activation), `first-unconstrained`
// for lists, which may read from a replica that lags.
import { fillPlaceholders, type Query, type SQLWrapper } from 'drizzle-orm';
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

/**
 * Runs raw statements with values as one transaction, which Drizzle's `batch` does not accept. Rows have the tables'
 * column names; `Rows` gives their type per statement.
 */
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

/** Makes the text of queries, and runs none. */
const drafts = drizzle({ prepare: () => undefined } as unknown as D1Database);

type Draft<Row> = {
  prepare: () => {
    all: () => Promise<Row[]>;
    getQuery: () => Query;
    mapResult: (response: unknown, isFromBatch?: boolean) => unknown;
  };
};

export type PreparedSelect<Row> = {
  bind: (database: Database, values: Record<string, unknown>) => D1PreparedStatement;
  /** Of a result of `batch`. */
  rowsOf: (result: D1Result) => Row[];
  first: (database: Database, values: Record<string, unknown>) => Promise<Row | undefined>;
};

/**
 * A select whose text is made once an isolate, when it is first used: Drizzle takes longer for that than for the whole rest.
 * Its values are `sql.placeholder`s.
 */
export function prepareSelect<Row>(build: (drafts: Database) => Draft<Row>): PreparedSelect<Row> {
  let made: { query: Query; prepared: ReturnType<Draft<Row>['prepare']> } | undefined;
  const make = () => {
    const prepared = build(drafts).prepare();
    return { prepared, query: prepared.getQuery() };
  };
  const bind: PreparedSelect<Row>['bind'] = (database, values) => {
    const { sql, params } = (made ??= make()).query;
    return database.$client.prepare(sql).bind(...fillPlaceholders(params, values));
  };
  return {
    bind,
    rowsOf: (result) => (made ??= make()).prepared.mapResult(result, true) as Row[],
    first: async (database, values) => {
      const rows = await bind(database, values).raw();
      return ((made ??= make()).prepared.mapResult(rows) as Row[])[0];
    },
  };
}
