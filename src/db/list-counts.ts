// How long a list is, from the counter that triggers keep with its rows (schema/devices.ts, `listCounts`): what it costs does not depend
// on the length.
import { and, eq, sql, type SQL } from 'drizzle-orm';
import { listCounts } from './schema/devices.ts';

type CountedList = (typeof listCounts.$inferSelect)['list'];

/** As a value inside a statement; 0 where the list was never written. */
export function lengthOf(list: CountedList, subject: string | number): SQL<number> {
  const isIt = and(eq(listCounts.list, list), eq(listCounts.subject, String(subject)));
  return sql<number>`coalesce((select entries from ${listCounts} where ${isIt}), 0)`;
}
