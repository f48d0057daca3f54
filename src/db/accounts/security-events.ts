// Queries on security events: of a user the newest rows, in which equal events of an hour are one.
import { desc, eq, sql } from 'drizzle-orm';
import type { PageRequest } from '../../domain/pagination.ts';
import { hourMs } from '../../domain/time.ts';
import { runTogether, type Database, insertSelect } from '../client.ts';
import { countOf, readPage } from '../pages.ts';
import { securityEvents } from '../schema/accounts.ts';

type SecurityEventRow = Omit<typeof securityEvents.$inferSelect, 'id'>;
/** Events of the same kind: those of the last 90 days, of the last hour, from the same address. */
type Before = { all: number; inHour: number; fromHere: number };

/** A flood of wrong passwords from many addresses stays one row. @returns the rows before it */
export async function putSecurityEvent(database: Database, event: SecurityEventRow, maxRows: number): Promise<Before> {
  const { userId, kind, clientAddress, detail, createdAt } = event;
  const isEqual = sql`
    user_id = ${userId} and created_at > ${createdAt - hourMs} and kind = ${kind}
    and (kind = 'wrong_password' or client_address is ${clientAddress})
    and json_remove(detail, '$.count') = ${JSON.stringify(detail)}`;
  const [{ results }] = await runTogether<[Before, unknown, unknown, unknown]>(database, [
    sql`
      select count(*) as "all", count(case when client_address = ${clientAddress} then 1 end) as fromHere,
        count(case when created_at > ${createdAt - hourMs} then 1 end) as inHour
      from ${securityEvents} where user_id = ${userId} and kind = ${kind}`,
    sql`
      update ${securityEvents} set detail = json_set(detail, '$.count', detail ->> 'count' + 1),
        client_address = ${clientAddress} where ${isEqual}`,
    sql`
      ${insertSelect(securityEvents, { ...event, detail: { ...detail, count: 1 } })}
      where not exists (select 1 from ${securityEvents} where ${isEqual})`,
    sql`
      delete from ${securityEvents} where id in (
        select id from ${securityEvents} where user_id = ${userId}
        order by created_at desc, id desc limit -1 offset ${maxRows})`,
  ]);
  return results[0] ?? { all: 0, inHour: 0, fromHere: 0 };
}

export async function listSecurityEvents(database: Database, userId: number, page: PageRequest) {
  const ofUser = eq(securityEvents.userId, userId);
  const rows = database.select().from(securityEvents).where(ofUser).$dynamic();
  const newestFirst = rows.orderBy(desc(securityEvents.createdAt), desc(securityEvents.id));
  return readPage(database, countOf(database, securityEvents, ofUser), newestFirst, page);
}
