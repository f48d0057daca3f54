// Queries on claim tokens, of which only digests are stored, and on offers of devices to other users. Whether an offer may still be
// accepted, the device's session decides.
import { and, eq, sql, count, gt, isNull, or } from 'drizzle-orm';
import type { PageRequest } from '../../domain/pagination.ts';
import { type Database, findRow, insertSelect, takeExcluded } from '../client.ts';
import { lengthOf, readOpenPage } from '../pages.ts';
import { users } from '../schema/accounts.ts';
import { hasBlocked } from './members.ts';
import { devices, deviceTransfers, claimTokens } from '../schema/devices.ts';
import { products } from '../schema/products.ts';
import { limitOf, type UserLimits } from '../accounts/users.ts';
import { hasLivingKey } from '../accounts/api-keys.ts';

/** So many open offers a user is shown. Further ones reach nobody. */
const maxOffersToUser = 200;

/** The user whom an offer reaches. Undefined also for a user who has blocked the sender: senders are told nothing. */
export async function findRecipient(
  database: Database,
  { foldedEmail, fromUserId, nowMs }: { foldedEmail: string; fromUserId: number; nowMs: number },
  mustBeVerified: boolean,
): Promise<number | undefined> {
  const open = sql`select count(*) from ${deviceTransfers} where to_user_id = ${users.id} and expires_at > ${nowMs}`;
  const [recipient] = await database.all<{ id: number }>(sql`
    select id from ${users}
    where folded_email = ${foldedEmail} and (not ${Number(mustBeVerified)} or email_verified_at is not null)
      and not ${hasBlocked(users.id, fromUserId)} and (${open}) < ${maxOffersToUser}`);
  return recipient?.id;
}

export async function putTransfer(
  database: Database,
  transfer: typeof deviceTransfers.$inferSelect,
  limits: UserLimits<'transferOffersPerUser'>,
): Promise<boolean> {
  const { deviceId, fromUserId, offeredAt } = transfer;
  const others = sql`(select count(*) from ${deviceTransfers}
    where from_user_id = ${fromUserId} and expires_at > ${offeredAt} and device_id <> ${deviceId})`;
  const put = await database.run(sql`
    ${insertSelect(deviceTransfers, transfer)} where ${others} < ${limitOf(fromUserId, 'transferOffersPerUser', limits)}
    on conflict (device_id) do update set ${takeExcluded(deviceTransfers, transfer, ['deviceId'])}`);
  return put.meta.changes > 0;
}

export async function findTransfer(database: Database, deviceId: string, toUserId: number) {
  const isToUser = and(eq(deviceTransfers.deviceId, deviceId), eq(deviceTransfers.toUserId, toUserId));
  return findRow(database, deviceTransfers, isToUser);
}

export async function findOpenOffer(database: Database, deviceId: string, fromUserId: number, nowMs: number) {
  const { offerId, offeredAt: offeredAtMs, expiresAt: expiresAtMs } = deviceTransfers;
  return database
    .select({ offerId, email: users.email, toUserId: users.id, offeredAtMs, expiresAtMs })
    .from(deviceTransfers)
    .innerJoin(users, eq(users.id, deviceTransfers.toUserId))
    .where(sql`device_id = ${deviceId} and from_user_id = ${fromUserId} and expires_at > ${nowMs}`)
    .get();
}

export async function deleteTransfer(database: Database, deviceId: string, offerId?: string): Promise<void> {
  const isOffer = offerId === undefined ? undefined : eq(deviceTransfers.offerId, offerId);
  await database.delete(deviceTransfers).where(and(eq(deviceTransfers.deviceId, deviceId), isOffer));
}

export async function listTransfersTo(database: Database, toUserId: number, nowMs: number, page: PageRequest) {
  const { deviceId, offeredAt, expiresAt, fromUserId } = deviceTransfers;
  const productName = sql<string>`${products.name}`.as('product_name');
  const rows = database
    .select({ deviceId, productKey: products.productKey, productName, from: users.email, offeredAt, expiresAt })
    .from(deviceTransfers)
    .innerJoin(devices, eq(devices.deviceId, deviceId))
    .innerJoin(products, eq(products.id, devices.productId))
    .innerJoin(users, eq(users.id, fromUserId));
  const open = { length: lengthOf('transfers', toUserId), expiresAt, nowMs };
  const list = { table: deviceTransfers, time: offeredAt, id: deviceId, where: eq(deviceTransfers.toUserId, toUserId) };
  return readOpenPage(database, open, rows.$dynamic(), list, page);
}

type TokenRow = typeof claimTokens.$inferSelect;
type NewToken = Partial<TokenRow> & Pick<TokenRow, 'hash' | 'userId' | 'createdAt' | 'expiresAt'>;

/** False if the user has as many valid, unused tokens as allowed. */
export async function insertClaimToken(database: Database, token: NewToken, limits: UserLimits<'claimTokensPerUser'>) {
  const { userId, createdAt } = token;
  const valid = database
    .select({ valid: count() })
    .from(claimTokens)
    .where(and(eq(claimTokens.userId, userId), gt(claimTokens.expiresAt, createdAt), isNull(claimTokens.usedBy)));
  const inserted = await database.run(sql`
    ${insertSelect(claimTokens, token)} where ${valid} < ${limitOf(userId, 'claimTokensPerUser', limits)}`);
  return inserted.meta.changes === 1;
}

export async function useClaimToken(
  database: Database,
  hash: string,
  { device, productKey }: { device: string; productKey: string },
  nowMs: number,
) {
  const { usedBy, boundTo, userId, hasShownCode } = claimTokens;
  const isForDevice = [usedBy, boundTo].map((column) => or(isNull(column), eq(column, device)));
  const isForProduct = or(isNull(claimTokens.productKey), eq(claimTokens.productKey, productKey));
  const isStanding = and(gt(claimTokens.expiresAt, nowMs), hasLivingKey(claimTokens.madeByKey));
  const [used] = await database
    .update(claimTokens)
    .set({ usedBy: device })
    .where(and(eq(claimTokens.hash, hash), isStanding, ...isForDevice, isForProduct))
    .returning({ userId, hasShownCode });
  return used;
}

export async function findClaimToken(database: Database, hash: string, nowMs: number) {
  return findRow(database, claimTokens, and(eq(claimTokens.hash, hash), gt(claimTokens.expiresAt, nowMs)));
}
