// Queries on the `devices` table. Name, disabled and presence are a copy of what the device's session holds: it alone
// writes them, through `writeDeviceCopy`. Everything else is written by activation.
import { and, asc, count, desc, eq, gt, lt, sql, type SQL } from 'drizzle-orm';
import type { DeviceStatusCode } from '../domain/device-status.ts';
import { offsetOf, type PageRequest } from '../domain/pagination.ts';
import { openDatabase, type Database } from './client.ts';
import { devices, products } from './schema.ts';

export type DeviceRow = typeof devices.$inferSelect;
type ProductSummaryRow = Pick<
  typeof products.$inferSelect,
  'id' | 'productKey' | 'name' | 'uiTemplate' | 'iconName' | 'iconColor' | 'controlMode' | 'model'
>;
export type DeviceWithProduct = { device: DeviceRow; product: ProductSummaryRow };

/** What a device's session alone writes. */
export type DeviceCopy = Pick<DeviceRow, 'name' | 'isDisabled' | 'lastOnlineAt'> & { connectionStatus: 1 | 2 };

export type DeviceFilter = {
  ownerId: number;
  productKey: string | undefined;
  statusCode: DeviceStatusCode | undefined;
};

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

export type NewDevice = Pick<
  DeviceRow,
  'deviceId' | 'productId' | 'deviceSN' | 'name' | 'firmwareVersion' | 'chipModel' | 'createdAt'
>;

/**
 * Makes the record unless its serial has one already. One statement, so that no device comes to be under a product
 * that is disabled or deleted at the same moment.
 */
export async function insertDevice(db: Database, device: NewDevice): Promise<void> {
  await db.run(sql`
    insert into ${devices}
      (device_id, product_id, device_sn, owner_id, project_id, name, firmware_version, chip_model, connection_status,
       activated_at, created_at)
    select ${device.deviceId}, ${products.id}, ${device.deviceSN}, ${products.ownerId}, ${products.projectId},
      ${device.name}, ${device.firmwareVersion}, ${device.chipModel}, 2, ${device.createdAt}, ${device.createdAt}
    from ${products}
    where ${products.id} = ${device.productId} and ${products.deletedAt} is null and ${products.status} = 1
    on conflict do nothing`);
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

export async function listDevices(db: Database, filter: DeviceFilter, page: PageRequest) {
  const { pageQuery, countQuery } = queryDevices(db, filter, page);
  const [[counted], rows] = await db.batch([countQuery, pageQuery]);
  return { total: counted?.total ?? 0, rows };
}

/** The two queries of a list, newest first. */
export function queryDevices(db: Database, { ownerId, productKey, statusCode }: DeviceFilter, page: PageRequest) {
  const productId = db
    .select({ id: products.id })
    .from(products)
    .where(eq(products.productKey, productKey ?? ''));
  const wanted = and(
    eq(devices.ownerId, ownerId),
    productKey === undefined ? undefined : eq(devices.productId, productId),
    hasStatus(statusCode),
  );
  return {
    countQuery: db.select({ total: count() }).from(devices).where(wanted),
    pageQuery: db
      .select(withProduct)
      .from(devices)
      .innerJoin(products, eq(devices.productId, products.id))
      .where(wanted)
      .orderBy(desc(devices.createdAt), desc(devices.id))
      .limit(page.size)
      .offset(offsetOf(page)),
  };
}

export async function deleteDevice(db: Database, deviceId: string): Promise<void> {
  await db.delete(devices).where(eq(devices.deviceId, deviceId));
}

/** Devices of a product in the order of their rows, after a given row: for work that goes through all of them. */
export async function listDeviceIds(db: Database, productId: number, afterId: number, limit: number) {
  return db
    .select({ id: devices.id, deviceId: devices.deviceId })
    .from(devices)
    .where(and(eq(devices.productId, productId), gt(devices.id, afterId)))
    .orderBy(asc(devices.id))
    .limit(limit);
}

/** Takes the copy only if it is newer: writers may finish in any order. */
export async function writeDeviceCopy(
  binding: D1Database,
  deviceId: string,
  { version, ...copy }: DeviceCopy & { version: number },
): Promise<void> {
  await openDatabase(binding, 'first-primary')
    .update(devices)
    .set({ ...copy, copyVersion: version })
    .where(and(eq(devices.deviceId, deviceId), lt(devices.copyVersion, version)));
}

function hasStatus(statusCode: DeviceStatusCode | undefined): SQL | undefined {
  if (statusCode === undefined) return undefined;
  if (statusCode === 3) return eq(devices.isDisabled, true);
  return and(eq(devices.isDisabled, false), eq(devices.connectionStatus, statusCode));
}
