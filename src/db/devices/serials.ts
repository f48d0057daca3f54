// Queries on a product's serial numbers: those that were registered before they activate have a record without a session.
import { and, desc, eq, inArray, isNull, sql } from 'drizzle-orm';
import type { PageRequest } from '../../domain/pagination.ts';
import type { Database } from '../client.ts';
import { readPage } from '../pages.ts';
import { devices } from '../schema/devices.ts';
import { productDeviceCounts, products } from '../schema/products.ts';
import { limitOf, type UserLimits } from '../accounts/user-limits.ts';

export type NewSerial = Pick<typeof devices.$inferSelect, 'deviceId' | 'deviceSN' | 'name' | 'claimCodeDigest'>;

/** One statement. `missing`: registers as many as the limit allows. `others`: sets claim codes of serials that have not activated. */
export async function putSerials(
  db: Database,
  productId: number,
  { missing, others }: Record<'missing' | 'others', readonly NewSerial[]>,
  nowMs: number,
  limits: UserLimits<'devicesPerProduct'>,
): Promise<void> {
  const serials = [...missing, ...others];
  const rows = JSON.stringify(serials.map((row) => [row.deviceId, row.deviceSN, row.name, row.claimCodeDigest]));
  const all = sql`coalesce((select devices from ${productDeviceCounts} where product_id = ${productId}), 0)`;
  await db.run(sql`
      insert into ${devices}
        (device_id, product_id, device_sn, owner_id, project_id, name, firmware_version, chip_model, connection_status,
         claim_code_digest, registered_at, created_at)
      select value ->> 0, ${products.id}, value ->> 1, ${products.ownerId}, ${products.projectId}, value ->> 2, '', '', 0,
        value ->> 3, ${nowMs}, ${nowMs}
      from json_each(${rows}), ${products}
      where ${products.id} = ${productId} and ${products.deletedAt} is null
        and (key >= ${missing.length} or ${all} + key < ${limitOf(products.ownerId, 'devicesPerProduct', limits)})
      on conflict (product_id, device_sn) do update set claim_code_digest = excluded.claim_code_digest
        where claim_code_digest is null and activated_at is null`);
}

export async function findSerials(db: Database, productId: number, serials: readonly string[]) {
  const wanted = sql`(select value from json_each(${JSON.stringify(serials)}))`;
  const rows = await db
    .select({ deviceSN: devices.deviceSN, deviceId: devices.deviceId, claimCodeDigest: devices.claimCodeDigest })
    .from(devices)
    .where(and(eq(devices.productId, productId), inArray(devices.deviceSN, wanted)));
  return new Map(rows.map((row) => [row.deviceSN, row]));
}

export async function listSerials(db: Database, productId: number, page: PageRequest) {
  const total = db
    .select({ total: productDeviceCounts.devices })
    .from(productDeviceCounts)
    .where(eq(productDeviceCounts.productId, productId));
  const { deviceSN, deviceId, registeredAt, activatedAt, claimedAt, claimCodeDigest, isDisabled } = devices;
  const rows = db
    .select({ deviceSN, deviceId, registeredAt, activatedAt, claimedAt, claimCodeDigest, isDisabled })
    .from(devices)
    .where(eq(devices.productId, productId))
    .orderBy(desc(devices.id));
  return readPage(db, total, rows.$dynamic(), page);
}

export async function deleteSerial(db: Database, productId: number, deviceSN: string): Promise<boolean> {
  const isUnused = and(eq(devices.productId, productId), eq(devices.deviceSN, deviceSN), isNull(devices.activatedAt));
  // The count of changed rows has those of triggers in it.
  return (await db.delete(devices).where(isUnused).returning({ id: devices.id })).length === 1;
}
