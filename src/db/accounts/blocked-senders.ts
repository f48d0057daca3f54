// Queries on senders whose invitations and offers a user is not shown. Their rows stay, so that nothing tells a sender.
import { and, asc, eq, sql, type SQL, type SQLWrapper } from 'drizzle-orm';
import type { PageRequest } from '../../domain/pagination.ts';
import { runTogether, type Database } from '../client.ts';
import { countOf, readPage } from '../pages.ts';
import { blockedSenders, users } from '../schema/accounts.ts';
import { deviceInvitations, deviceTransfers } from '../schema/devices.ts';

export function hasBlocked(userId: SQLWrapper | number, senderId: SQLWrapper | number): SQL {
  return sql`exists (select 1 from ${blockedSenders} where user_id = ${userId} and sender_id = ${senderId})`;
}

/** undefined if nobody with this e-mail invites the user or offers a device: other e-mails are not told apart. */
export async function blockSender(
  database: Database,
  { id: userId, foldedEmail }: { id: number; foldedEmail: string },
  senderEmail: string,
  nowMs: number,
) {
  const sender = sql`select id as sender from ${users} where folded_email = ${senderEmail}`;
  const [blocked] = await runTogether<[{ senderId: number }, unknown]>(database, [
    sql`
      insert into ${blockedSenders} (user_id, sender_id) select ${userId}, sender from (${sender}) where exists (
        select 1 from ${deviceInvitations}
        where folded_email = ${foldedEmail} and invited_by = sender and expires_at > ${nowMs}
        union all
        select 1 from ${deviceTransfers} where to_user_id = ${userId} and from_user_id = sender and expires_at > ${nowMs})
      on conflict do update set sender_id = excluded.sender_id returning sender_id as senderId`,
    sql`
      update ${deviceTransfers} set to_user_id = null
      where to_user_id = ${userId} and ${hasBlocked(userId, deviceTransfers.fromUserId)}`,
  ]);
  return blocked.results[0]?.senderId;
}

export async function listBlockedSenders(database: Database, userId: number, page: PageRequest) {
  const mine = eq(blockedSenders.userId, userId);
  const rows = database
    .select({ userId: users.id, email: users.email })
    .from(blockedSenders)
    .innerJoin(users, eq(users.id, blockedSenders.senderId))
    .where(mine)
    .orderBy(asc(users.id));
  return readPage(database, countOf(database, blockedSenders, mine), rows.$dynamic(), page);
}

export async function unblockSender(database: Database, userId: number, senderId: number): Promise<boolean> {
  const isIt = and(eq(blockedSenders.userId, userId), eq(blockedSenders.senderId, senderId));
  return (await database.delete(blockedSenders).where(isIt).returning()).length > 0;
}
