// Lists of an owner's devices, newest first. What a list costs depends on the size of its page and, up to a limit, on its
// number, never on how many devices there are: the total comes from `device_counts`, the rows by an index on each filter.
import { and, count, desc, eq, gte, lt, sql, type SQL } from 'drizzle-orm';
import type { DeviceStatusCode } from '../domain/device-status.ts';
import { offsetOf, type ListPosition, type PageRequest } from '../domain/pagination.ts';
import type { Database } from './client.ts';
import { withProduct, type DeviceWithProduct } from './devices.ts';
import { deviceCounts, devices, products } from './schema.ts';

export type DeviceFilter = {
  ownerId: number;
  productKey: string | undefined;
  statusCode: DeviceStatusCode | undefined;
};

/** The page, or as many rows as it has after `after`. */
export async function listDevices(
  db: Database,
  filter: DeviceFilter,
  page: PageRequest,
  after: ListPosition | 'begin' | undefined,
): Promise<{ total: number; rows: DeviceWithProduct[] }> {
  const wanted = wantedBy(db, filter);
  const rows = db
    .select(withProduct)
    .from(devices)
    .innerJoin(products, eq(devices.productId, products.id))
    .where(and(wanted, beginOf(wanted, page, after)))
    .orderBy(...newestFirst)
    .limit(page.size);
  const [[counted], found] = await db.batch([totalOf(db, filter), rows]);
  return { total: counted?.total ?? 0, rows: found };
}

/** Some devices of a product: of one status, created from `createdAfter` on, before `createdBefore`. */
export type ProductDevicesFilter = {
  productId: number;
  ownerId: number;
  statusCode: DeviceStatusCode | undefined;
  createdAfter: number | undefined;
  createdBefore: number | undefined;
};

/** The newest of them. */
export async function listDeviceIdsOf(db: Database, filter: ProductDevicesFilter, limit: number): Promise<string[]> {
  const rows = await db
    .select({ deviceId: devices.deviceId })
    .from(devices)
    .where(matching(filter))
    .orderBy(...newestFirst)
    .limit(limit);
  return rows.map(({ deviceId }) => deviceId);
}

/** Their number, or `max` where there are more. */
export async function countDevicesOf(db: Database, filter: ProductDevicesFilter, max: number): Promise<number> {
  const some = db.select({ id: devices.id }).from(devices).where(matching(filter)).limit(max);
  const [counted] = await db.select({ total: count() }).from(some.as('some'));
  return counted?.total ?? 0;
}

export async function countDevices(db: Database, filter: DeviceFilter): Promise<number> {
  return (await totalOf(db, filter).get())?.total ?? 0;
}

const newestFirst = [desc(devices.createdAt), desc(devices.id)];

function wantedBy(db: Database, { ownerId, productKey, statusCode }: DeviceFilter): SQL | undefined {
  return and(
    eq(devices.ownerId, ownerId),
    productKey === undefined ? undefined : eq(devices.productId, productIdOf(db, productKey)),
    statusCode === undefined ? undefined : eq(devices.status, statusCode),
  );
}

/** Pages begin at a row that the index alone finds: rows before it are neither read nor joined. */
function beginOf(wanted: SQL | undefined, page: PageRequest, after: ListPosition | 'begin' | undefined) {
  const position = sql`(${devices.createdAt}, ${devices.id})`;
  if (after === 'begin' || (after === undefined && page.page === 1)) return undefined;
  if (after !== undefined) return sql`${position} < (${after.createdAt}, ${after.id})`;
  // Columns by their bare names: those of the innermost query count.
  return sql`${position} <= (select created_at, id from ${devices} where ${wanted}
    order by created_at desc, id desc limit 1 offset ${offsetOf(page)})`;
}

function totalOf(db: Database, { ownerId, productKey, statusCode }: DeviceFilter) {
  const { devices: all, inactive, online, disabled } = deviceCounts;
  const counted = [inactive, online, sql`${all} - ${inactive} - ${online} - ${disabled}`, disabled];
  const total = statusCode === undefined ? all : counted[statusCode];
  return db
    .select({ total: sql<number>`coalesce(sum(${total}), 0)` })
    .from(deviceCounts)
    .where(
      and(
        eq(deviceCounts.ownerId, ownerId),
        productKey === undefined ? undefined : eq(deviceCounts.productId, productIdOf(db, productKey)),
      ),
    );
}

function productIdOf(db: Database, productKey: string) {
  return db.select({ id: products.id }).from(products).where(eq(products.productKey, productKey));
}

function matching({ productId, ownerId, statusCode, createdAfter, createdBefore }: ProductDevicesFilter) {
  return and(
    eq(devices.ownerId, ownerId),
    eq(devices.productId, productId),
    statusCode === undefined ? undefined : eq(devices.status, statusCode),
    createdAfter === undefined ? undefined : gte(devices.createdAt, createdAfter),
    createdBefore === undefined ? undefined : lt(devices.createdAt, createdBefore),
  );
}
