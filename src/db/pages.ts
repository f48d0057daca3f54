// Pages of lists: the rows of one page and the length of the list come in one transaction. Lists that may grow long take their
// length from a counter that triggers keep (schema/devices.ts, `listCounts`), and begin a page at a row that an index finds.
import { and, count, desc, eq, lte, not, or, sql, type SQL } from 'drizzle-orm';
import type { RunnableQuery } from 'drizzle-orm/runnable-query';
import type { SQLiteColumn, SQLiteSelect, SQLiteTable } from 'drizzle-orm/sqlite-core';
import { offsetOf, type PageRequest } from '../domain/pagination.ts';
import type { Database } from './client.ts';
import { listCounts } from './schema/devices.ts';

type CountedList = (typeof listCounts.$inferSelect)['list'];
type Total = RunnableQuery<{ total: number }[], 'sqlite'>;

/** The length of a list as a value inside a statement; 0 for a list that was never written. */
export function lengthOf(list: CountedList, subject: string | number): SQL<number> {
  const isCounter = and(eq(listCounts.list, list), eq(listCounts.subject, String(subject)));
  return sql<number>`coalesce((select entries from ${listCounts} where ${isCounter}), 0)`;
}

export function countOf(db: Database, table: SQLiteTable, where: SQL | undefined) {
  return db.select({ total: count() }).from(table).where(where);
}

export async function readPage<Query extends SQLiteSelect>(db: Database, total: Total, rows: Query, page: PageRequest) {
  return readBatch(db, total, rows.limit(page.size).offset(offsetOf(page)));
}

type IndexedList = { table: SQLiteTable; time: SQLiteColumn; id: SQLiteColumn; where: SQL | undefined };

/** Newest first by `time`, then by `id`: the index alone finds the first row of the page, however long the list is. */
export async function readPageByIndex<Query extends SQLiteSelect>(
  db: Database,
  total: Total,
  rows: Query,
  { table, time, id, where }: IndexedList,
  page: PageRequest,
): Promise<{ total: number; rows: Query['_']['result'] }> {
  const [timeName, idName] = [sql.identifier(time.name), sql.identifier(id.name)];
  const begin = sql`(${time}, ${id}) <= (select ${timeName}, ${idName} from ${table} where ${where}
    order by ${timeName} desc, ${idName} desc limit 1 offset ${offsetOf(page)})`;
  const reached = and(where, page.page === 1 ? undefined : begin);
  return readBatch(db, total, rows.where(reached).orderBy(desc(time), desc(id)).limit(page.size));
}

/** As `readPageByIndex`, for rows that expire. The total is the counter without `hidden` rows and those that expired lately. */
export async function readOpenPage<Query extends SQLiteSelect>(
  db: Database,
  open: { length: SQL<number>; expiresAt: SQLiteColumn; nowMs: number; hidden?: SQL },
  rows: Query,
  list: IndexedList,
  page: PageRequest,
): Promise<{ total: number; rows: Query['_']['result'] }> {
  const { length, expiresAt, nowMs, hidden } = open;
  const total = db
    .select({ total: sql<number>`${length} - count(*)` })
    .from(list.table)
    .where(and(list.where, or(lte(expiresAt, nowMs), hidden)));
  // The plus keeps SQLite on the index that is sorted.
  const where = and(list.where, sql`+${expiresAt} > ${nowMs}`, hidden && not(hidden));
  return readPageByIndex(db, total, rows, { ...list, where }, page);
}

async function readBatch<Query extends SQLiteSelect>(db: Database, total: Total, rows: Query) {
  const [[counted], list] = await db.batch([total, rows]);
  return { total: counted?.total ?? 0, rows: list };
}
