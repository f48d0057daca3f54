// Opens D1 for one request: `first-primary` for reads that decide (login, key check, activation), `first-unconstrained` for
// lists, which may read from a replica that lags. Also parts of `insert ... select`, which counts and inserts in one statement:
// simultaneous requests cannot exceed a limit together. Columns come by their names in the schema.
import { type SQLWrapper, DrizzleQueryError, getTableColumns, is, SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { SQLiteAsyncDialect, type SQLiteTable } from 'drizzle-orm/sqlite-core';

export type Database = ReturnType<typeof openDatabase>;

export function openDatabase(binding: D1Database, consistency: D1SessionConstraint = 'first-primary') {
  // Drizzle calls `prepare` and `batch` only; the type of a session lacks the other members.
  const session = binding.withSession(consistency) as unknown as D1Database;
  // Without the tables: Drizzle would read their relations, which no query here uses, once more for every request.
  return drizzle(session);
}

/** SQLite has looked at the statement and refused it: another attempt would end in the same way. */
const refusedStatement = /SQLITE_(?:ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG|AUTH)\b|D1_TYPE_ERROR/;

/** D1 is locked, overloaded or away: a later attempt may succeed. */
export function isDatabaseAway(error: unknown): boolean {
  if (error instanceof DrizzleQueryError) return !refusedStatement.test(String(error.cause));
  return error instanceof Error && error.message.startsWith('D1_') && !refusedStatement.test(error.message);
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

export async function findRow<Table extends SQLiteTable>(
  database: Database,
  table: Table,
  where: SQL | undefined,
): Promise<Table['$inferSelect'] | undefined> {
  return database.select().from<SQLiteTable>(table).where(where).get();
}

type Row<Table extends SQLiteTable> = {
  [Name in keyof Table['$inferSelect']]?: Table['$inferSelect'][Name] | SQL;
};

/** The query of a table adds `from` and `where`. */
export function insertSelect<Table extends SQLiteTable>(table: Table, row: Row<Table>): SQL {
  const columns = columnsIn(table, row);
  const names = columns.map(({ column }) => sql.identifier(column.name));
  const values = columns.map(({ column, value }) => {
    if (value === null || is(value, SQL)) return value ?? sql`null`;
    return sql`${sql.param(value, column)}`;
  });
  return sql`insert into ${table} (${sql.join(names, sql`, `)}) select ${sql.join(values, sql`, `)}`;
}

/** For `do update set`: every column of `row` but `kept`. */
export function takeExcluded<Table extends SQLiteTable>(
  table: Table,
  row: Row<Table>,
  kept: readonly (keyof Row<Table>)[],
) {
  const columns = columnsIn(table, row).filter(({ name }) => !kept.includes(name));
  const names = columns.map(({ column }) => sql.identifier(column.name));
  const updates = names.map((name) => sql`${name} = excluded.${name}`);
  return sql.join(updates, sql`, `);
}

function columnsIn(table: SQLiteTable, row: Record<string, unknown>) {
  const columns = Object.entries(getTableColumns(table)).filter(([name]) => row[name] !== undefined);
  return columns.map(([name, column]) => ({ name, column, value: row[name] }));
}
