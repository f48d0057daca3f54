// Queries on the `devices` table. The presence columns are written by DeviceSession alone, through
// `writePresenceCopy`; everything else by activation and administration.
import { and, count, desc, eq, gt, lt, sql, type SQL } from 'drizzle-orm';
import type { DeviceStatusCode } from '../domain/device-status.ts';
import { offsetOf, type Page, type PageRequest } from '../domain/pagination.ts';
import { openDatabase, type Database } from './client.ts';
import { devices, products } from './schema.ts';

export type DeviceRow = typeof devices.$inferSelect;
export type ProductSummaryRow = Pick<
  typeof products.$inferSelect,
  'id' | 'productKey' | 'name' | 'uiTemplate' | 'iconName' | 'iconColor' | 'controlMode' | 'model'
>;
export type DeviceWithProduct = { device: DeviceRow; product: ProductSummaryRow };

export type DeviceFilter = { productId?: number; statusCode?: DeviceStatusCode };

// A batch of D1 answers rows as objects: of two columns with one name only the last would arrive.
const withProduct = {
  device: devices,
  product: {
    id: sql<number>`${products.id}`.as('summary_id'),
    productKey: products.productKey,
    name: sql<string>`${products.name}`.as('summary_name'),
    uiTemplate: products.uiTemplate,
    iconName: products.iconName,
    iconColor: products.iconColor,
    controlMode: products.controlMode,
    model: products.model,
  },
};

/** The device of a serial number, made if it is new: of two at the same moment, both get the same one. */
export async function findOrCreateDevice(db: Database, row: typeof devices.$inferInsert): Promise<DeviceRow> {
  const bySerial = and(eq(devices.productId, row.productId), eq(devices.deviceSN, row.deviceSN));
  const [, found] = await db.batch([
    db.insert(devices).values(row).onConflictDoNothing(),
    db.select().from(devices).where(bySerial).limit(1),
  ]);
  const device = found[0];
  if (device === undefined) throw new Error('device vanished between insert and select');
  return device;
}

export async function findDeviceBySerial(db: Database, productId: number, deviceSN: string) {
  return db
    .select()
    .from(devices)
    .where(and(eq(devices.productId, productId), eq(devices.deviceSN, deviceSN)))
    .get();
}

export async function updateActivation(
  db: Database,
  deviceId: string,
  change: Pick<DeviceRow, 'firmwareVersion' | 'chipModel'>,
): Promise<void> {
  await db.update(devices).set(change).where(eq(devices.deviceId, deviceId));
}

export async function findDevice(db: Database, deviceId: string): Promise<DeviceWithProduct | undefined> {
  return db
    .select(withProduct)
    .from(devices)
    .innerJoin(products, eq(devices.productId, products.id))
    .where(eq(devices.deviceId, deviceId))
    .get();
}

/** Newest first. Count and page are one round trip. */
export async function listDevices(
  db: Database,
  ownerId: number,
  filter: DeviceFilter,
  page: PageRequest,
): Promise<Page<DeviceWithProduct>> {
  const where = and(eq(devices.ownerId, ownerId), ...filterConditions(filter));
  const [totals, list] = await db.batch([
    db.select({ total: count() }).from(devices).where(where),
    db
      .select(withProduct)
      .from(devices)
      .innerJoin(products, eq(devices.productId, products.id))
      .where(where)
      .orderBy(desc(devices.createdAt), desc(devices.id))
      .limit(page.size)
      .offset(offsetOf(page)),
  ]);
  return { list, total: totals[0]?.total ?? 0, ...page };
}

export async function deleteDevice(db: Database, deviceId: string): Promise<void> {
  await db.delete(devices).where(eq(devices.deviceId, deviceId));
}

export async function updateDevice(
  db: Database,
  deviceId: string,
  change: Partial<Pick<DeviceRow, 'name' | 'isDisabled'>>,
): Promise<void> {
  await db.update(devices).set(change).where(eq(devices.deviceId, deviceId));
}

/** Device ids of a product in the order of their rows, after a given row; for work that goes through all of them. */
export async function listDeviceIds(db: Database, productId: number, afterId: number, limit: number) {
  return db
    .select({ id: devices.id, deviceId: devices.deviceId })
    .from(devices)
    .where(and(eq(devices.productId, productId), gt(devices.id, afterId)))
    .orderBy(devices.id)
    .limit(limit);
}

/** Takes the copy only if it is newer: writers may finish in any order. */
export async function writePresenceCopy(
  binding: D1Database,
  deviceId: string,
  copy: { connectionStatus: 1 | 2; version: number; lastOnlineAt: number | null },
): Promise<void> {
  await openDatabase(binding, 'first-primary')
    .update(devices)
    .set({
      connectionStatus: copy.connectionStatus,
      connectionVersion: copy.version,
      lastOnlineAt: copy.lastOnlineAt,
    })
    .where(and(eq(devices.deviceId, deviceId), lt(devices.connectionVersion, copy.version)));
}

function filterConditions({ productId, statusCode }: DeviceFilter): SQL[] {
  const conditions: SQL[] = [];
  if (productId !== undefined) conditions.push(eq(devices.productId, productId));
  if (statusCode === 3) conditions.push(eq(devices.isDisabled, true));
  if (statusCode !== undefined && statusCode !== 3) {
    conditions.push(eq(devices.isDisabled, false), eq(devices.connectionStatus, statusCode));
  }
  return conditions;
}
