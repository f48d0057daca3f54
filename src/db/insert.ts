// Parts of `insert ... select`, which counts and inserts in one statement: simultaneous requests cannot exceed a limit together.
// Columns come by their names in the schema. The query of a table adds `from` and `where`.
import { getTableColumns, is, SQL, sql } from 'drizzle-orm';
import type { SQLiteTable } from 'drizzle-orm/sqlite-core';

type Row<Table extends SQLiteTable> = {
  [Name in keyof Table['$inferSelect']]?: Table['$inferSelect'][Name] | SQL;
};

export function insertSelect<Table extends SQLiteTable>(table: Table, row: Row<Table>): SQL {
  const columns = columnsIn(table, row);
  const names = columns.map(({ column }) => sql.identifier(column.name));
  const values = columns.map(({ column, value }) => (is(value, SQL) ? value : sql`${sql.param(value, column)}`));
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
  return sql.join(
    names.map((name) => sql`${name} = excluded.${name}`),
    sql`, `,
  );
}

function columnsIn(table: SQLiteTable, row: Record<string, unknown>) {
  const columns = Object.entries(getTableColumns(table));
  return columns
    .map(([name, column]) => ({ name, column, value: row[name] }))
    .filter(({ value }) => value !== undefined);
}
