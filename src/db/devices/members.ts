// Members of devices, open invitations, and senders whose invitations and offers a user is not shown. `writeMembers` copies what the
// device's object decided; invitations are here alone: they give no right until the object has taken one. Rows of a blocked sender stay,
// so that nothing tells the sender.
import { and, asc, eq, gt, not, sql, type SQL, type SQLWrapper } from 'drizzle-orm';
import type { MemberRole } from '../../domain/access.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import { findRow, runTogether, type Database, insertSelect, takeExcluded } from '../client.ts';
import { countOf, lengthOf, readOpenPage, readPage } from '../pages.ts';
import { users, blockedSenders } from '../schema/accounts.ts';
import { type UserRow, limitOf, type UserLimits } from '../accounts/users.ts';
import { deviceInvitations, deviceMembers, devices, deviceTransfers } from '../schema/devices.ts';
import { hasLivingKey } from '../accounts/api-keys.ts';

export type InvitationRow = typeof deviceInvitations.$inferSelect;

/** Open invitations: those that a user makes, on all devices, and those of an e-mail, which its user has to be able to read. */
export const maxInvitations = { invitationsPerSender: 100, invitationsPerRecipient: 200 };
type PutState = 'made' | 'full' | keyof typeof maxInvitations;

/**
 * Replaces the members, unless D1 has a newer version: writes may finish in any order. An invitation to what its recipient
 * is by now goes with it.
 */
export async function writeMembers(
  db: Database,
  deviceId: string,
  version: number,
  members: readonly { userId: number; role: MemberRole; sinceMs: number }[],
): Promise<void> {
  const present = sql`(select id from ${devices} where device_id = ${deviceId} and members_version = ${version})`;
  const list = JSON.stringify(members);
  await runTogether<[unknown, unknown, unknown, unknown]>(db, [
    sql`update ${devices} set members_version = ${version} where device_id = ${deviceId} and members_version < ${version}`,
    sql`
      delete from ${deviceMembers} where device_row in ${present}
        and user_id not in (select value ->> 'userId' from json_each(${list}))`,
    sql`
      insert into ${deviceMembers} (device_row, user_id, role, since, product_id, status, device_created_at)
      select d.id, m.value ->> 'userId', m.value ->> 'role', m.value ->> 'sinceMs', d.product_id, d.status, d.created_at
      from ${devices} d join json_each(${list}) m where d.device_id = ${deviceId} and d.members_version = ${version}
      on conflict do update set role = excluded.role`,
    // With the members, because the owner reads both when told that the members changed.
    sql`
      delete from ${deviceInvitations} where device_row in ${present} and (folded_email, role) in (
        select u.folded_email, m.value ->> 'role'
        from json_each(${list}) m join ${users} u on u.id = m.value ->> 'userId')`,
  ]);
}

export async function findMemberRole(db: Database, deviceRow: number, userId: number): Promise<MemberRole | undefined> {
  const isMember = and(eq(deviceMembers.deviceRow, deviceRow), eq(deviceMembers.userId, userId));
  return (await findRow(db, deviceMembers, isMember))?.role;
}

export async function findMembers(db: Database, deviceRow: number) {
  return db
    .select({ userId: deviceMembers.userId, role: deviceMembers.role, sinceMs: deviceMembers.since })
    .from(deviceMembers)
    .where(eq(deviceMembers.deviceRow, deviceRow));
}

export async function listMembers(db: Database, deviceRow: number, page: PageRequest) {
  const { userId, role, since } = deviceMembers;
  const mine = eq(deviceMembers.deviceRow, deviceRow);
  const rows = db
    .select({ userId, email: users.email, role, since })
    .from(deviceMembers)
    .innerJoin(users, eq(users.id, deviceMembers.userId))
    .where(mine)
    .orderBy(asc(deviceMembers.userId));
  return readPage(db, countOf(db, deviceMembers, mine), rows.$dynamic(), page);
}

/** Replaces an invitation of the same email. Senders whom the recipient has blocked do not use up the recipient's places. */
export async function putInvitation(
  db: Database,
  invitation: InvitationRow,
  limits: UserLimits<'membersPerDevice'>,
): Promise<PutState | 'no_device'> {
  const { deviceRow, foldedEmail, invitedBy, createdAt } = invitation;
  const open = sql`select count(*) from ${deviceInvitations} where expires_at > ${createdAt}`;
  const recipient = sql`(select id from ${users} where folded_email = ${foldedEmail})`;
  const isRenewed = sql`exists (
    select 1 from ${deviceInvitations} where device_row = ${deviceRow} and folded_email = ${foldedEmail})`;
  const state = sql`
    select id, case
      when ${isRenewed} then 'made'
      when (select count(*) from ${deviceInvitations} where device_row = ${deviceRow})
        >= ${limitOf(invitedBy, 'membersPerDevice', limits)} then 'full'
      when (${open} and invited_by = ${invitedBy}) >= ${maxInvitations.invitationsPerSender} then 'invitationsPerSender'
      when (${open} and folded_email = ${foldedEmail} and not ${hasBlocked(recipient, deviceInvitations.invitedBy)})
        >= ${maxInvitations.invitationsPerRecipient} then 'invitationsPerRecipient'
      else 'made' end as state
    from ${devices} where id = ${deviceRow}`;
  const [{ results }] = await runTogether<[{ state: PutState }, unknown]>(db, [
    state,
    sql`
      ${insertSelect(deviceInvitations, invitation)} from (${state}) where state = 'made'
      on conflict (device_row, folded_email) do update set
        ${takeExcluded(deviceInvitations, invitation, ['deviceRow', 'foldedEmail'])}`,
  ]);
  return results[0]?.state ?? 'no_device';
}

export async function listInvitationsOf(db: Database, deviceRow: number, page: PageRequest) {
  const mine = eq(deviceInvitations.deviceRow, deviceRow);
  const rows = db.select().from(deviceInvitations).where(mine).orderBy(asc(deviceInvitations.foldedEmail));
  return readPage(db, countOf(db, deviceInvitations, mine), rows.$dynamic(), page);
}

type Recipient = Pick<UserRow, 'id' | 'foldedEmail'>;

export async function listInvitationsFor(db: Database, user: Recipient, nowMs: number, page: PageRequest) {
  const { foldedEmail } = user;
  const { createdAt: time, id, expiresAt } = deviceInvitations;
  const rows = db
    .select({
      invitation: deviceInvitations,
      deviceId: devices.deviceId,
      deviceName: devices.name,
      inviter: sql<string>`${users.email}`.as('inviter_email'),
    })
    .from(deviceInvitations)
    .innerJoin(devices, eq(devices.id, deviceInvitations.deviceRow))
    .innerJoin(users, eq(users.id, deviceInvitations.invitedBy));
  const hidden = hasBlocked(user.id, deviceInvitations.invitedBy);
  const open = { length: lengthOf('invitations', foldedEmail), expiresAt, nowMs, hidden };
  const list = { table: deviceInvitations, time, id, where: eq(deviceInvitations.foldedEmail, foldedEmail) };
  return readOpenPage(db, open, rows.$dynamic(), list, page);
}

export async function findInvitation(
  db: Database,
  id: string,
  user: Recipient,
  nowMs: number,
  limits: UserLimits<'membersPerDevice'>,
) {
  const maxMembers = sql<number>`${limitOf(deviceInvitations.invitedBy, 'membersPerDevice', limits)}`.as('max_members');
  return db
    .select({ invitation: deviceInvitations, deviceId: devices.deviceId, maxMembers })
    .from(deviceInvitations)
    .innerJoin(devices, eq(devices.id, deviceInvitations.deviceRow))
    .where(
      and(
        eq(deviceInvitations.id, id),
        eq(deviceInvitations.foldedEmail, user.foldedEmail),
        gt(deviceInvitations.expiresAt, nowMs),
        hasLivingKey(deviceInvitations.madeByKey),
        not(hasBlocked(user.id, deviceInvitations.invitedBy)),
      ),
    )
    .get();
}

export async function deleteInvitation(db: Database, id: string, of: { deviceRow: number } | { foldedEmail: string }) {
  const mine =
    'deviceRow' in of
      ? eq(deviceInvitations.deviceRow, of.deviceRow)
      : eq(deviceInvitations.foldedEmail, of.foldedEmail);
  const [deleted] = await db
    .delete(deviceInvitations)
    .where(and(eq(deviceInvitations.id, id), mine))
    .returning();
  return deleted;
}

export async function deleteInvitationsOfUser(db: Database, deviceRow: number, userId: number): Promise<void> {
  const email = db.select({ email: users.foldedEmail }).from(users).where(eq(users.id, userId));
  await db
    .delete(deviceInvitations)
    .where(and(eq(deviceInvitations.deviceRow, deviceRow), eq(deviceInvitations.foldedEmail, email)));
}

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
