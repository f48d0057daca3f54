// Queries on single rows of `devices`; lists are in lists.ts. Name, disabled and presence are a projection of the
// device's session, written by it alone through `writeProjections`. Activation writes everything else.
import { and, asc, eq, getTableColumns, gt, gte, inArray, isNotNull, isNull, lt, or, sql, type SQL } from 'drizzle-orm';
import type { BatchItem } from 'drizzle-orm/batch';
import { findRow, insertSelect, runTogether, type Database } from '../client.ts';
import { countGoingOffline } from '../measurements.ts';
import { users } from '../schema/accounts.ts';
import { deviceMembers, devices } from '../schema/devices.ts';
import { productDeviceCounts, products } from '../schema/products.ts';
import { limitOf, type UserLimits } from '../accounts/users.ts';
import { addUsage } from '../products/products.ts';
import type { Projection } from '../../domain/device/core/events.ts';
import { dayMs, hourMs } from '../../domain/time.ts';

export type DeviceRow = typeof devices.$inferSelect;
export type DeviceWithProduct = NonNullable<Awaited<ReturnType<typeof findDevice>>>;

// `product` has the members of an answer, no others (contract 2.5).
// D1's batch returns rows as objects: of two columns with the same name only the last would arrive.
const withProduct = {
  device: devices,
  product: {
    productId: sql<number>`${products.id}`.as('summary_id'),
    productKey: products.productKey,
    name: sql<string>`${products.name}`.as('summary_name'),
    uiTemplate: products.uiTemplate,
    iconName: products.iconName,
    iconColor: products.iconColor,
    controlMode: products.controlMode,
    model: products.model,
  },
  maker: {
    ownerId: sql<number>`${products.ownerId}`.as('maker_id'),
    projectId: sql<string>`${products.projectId}`.as('maker_project_id'),
  },
};

type NewDevice = Pick<
  DeviceRow,
  'deviceId' | 'productId' | 'deviceSN' | 'name' | 'firmwareVersion' | 'chipModel' | 'createdAt' | 'activationNetwork'
>;

/** Devices that a network activated within a day and that never logged in: each costs a row and an object. */
const unusedPerNetworkDay = 200;

type QuotaName = 'devicesPerProduct' | 'newSerialsPerProductHour';
export type ReachedLimit = { name: QuotaName | 'unusedPerNetworkDay'; max: number };

/** One statement, so that simultaneous activations cannot exceed a limit. @returns the limit that is reached */
export async function insertDevice(
  db: Database,
  device: NewDevice,
  limits: UserLimits<QuotaName>,
): Promise<ReachedLimit | undefined> {
  const hour = Math.floor(device.createdAt / hourMs);
  const maxDevices = limitOf(products.ownerId, 'devicesPerProduct', limits);
  const maxNew = limitOf(products.ownerId, 'newSerialsPerProductHour', limits);
  const ofAll = productDeviceCounts;
  const all = sql`coalesce(${ofAll.devices}, 0)`;
  const newInHour = sql`iif(${ofAll.hour} >= ${hour}, ${ofAll.newInHour}, 0)`;
  const productWithCounts = sql`${products} left join ${ofAll} on ${ofAll.productId} = ${products.id}
    where ${products.id} = ${device.productId}`;
  const ofProduct = { ownerId: sql`${products.ownerId}`, projectId: sql`${products.projectId}` };
  const row = { ...device, ...ofProduct, connectionStatus: 2, activatedAt: device.createdAt };
  const { activationNetwork, activatedAt, lastOnlineAt } = devices;
  const ofNetwork = and(eq(activationNetwork, device.activationNetwork ?? ''), isNull(lastOnlineAt));
  const isNew = gte(activatedAt, device.createdAt - dayMs);
  const unused = sql`(select count(*) from
    (select 1 from ${devices} where ${ofNetwork} and ${isNew} limit ${unusedPerNetworkDay}))`;
  type Counts = { devices: number; new_in_hour: number; max_devices: number; max_new: number; unused: number };
  const [inserted, counted] = await runTogether<[unknown, Counts]>(db, [
    sql`
    ${insertSelect(devices, row)}
    from ${productWithCounts} and ${products.deletedAt} is null and ${products.status} = 1 and ${products.activation} = 'open'
      and ${all} < ${maxDevices} and ${newInHour} < ${maxNew} and ${unused} < ${unusedPerNetworkDay}
    on conflict do nothing returning id`,
    sql`
      select ${all} as devices, ${newInHour} as new_in_hour, ${maxDevices} as max_devices, ${maxNew} as max_new,
        ${unused} as unused
      from ${productWithCounts}`,
  ]);
  const [counts] = counted.results;
  if (inserted.results.length === 1 || counts === undefined) return undefined;
  if (counts.devices >= counts.max_devices) return { name: 'devicesPerProduct', max: counts.max_devices };
  if (counts.new_in_hour >= counts.max_new) return { name: 'newSerialsPerProductHour', max: counts.max_new };
  return counts.unused < unusedPerNetworkDay ? undefined : { name: 'unusedPerNetworkDay', max: unusedPerNetworkDay };
}

export async function findDeviceBySerial(db: Database, productId: number, deviceSN: string) {
  return findRow(db, devices, and(eq(devices.productId, productId), eq(devices.deviceSN, deviceSN)));
}

/** Whether the database knows the device, and whether it knows the product: one that does not is not the device's own. */
export async function findRecordOf(db: Database, deviceId: string, productKey: string) {
  const [row] = await db.all<{ record: number; product: number }>(sql`
    select exists (select 1 from ${devices} where device_id = ${deviceId}) as record,
      exists (select 1 from ${products} where product_key = ${productKey}) as product`);
  return { hasRecord: row?.record === 1, hasProduct: row?.product === 1 };
}

export async function activateRegistered(db: Database, deviceId: string, network: string | null, nowMs: number) {
  const activated = await db
    .update(devices)
    .set({ activatedAt: nowMs, activationNetwork: network, connectionStatus: 2 })
    .where(and(eq(devices.deviceId, deviceId), isNull(devices.activatedAt)))
    .returning({ id: devices.id });
  // The count of changed rows would have those of triggers in it.
  return activated.length === 1;
}

/** Changes what is not part of the projection. */
export async function updateRecord(
  db: Database,
  deviceId: string,
  change: Partial<Pick<DeviceRow, 'firmwareVersion' | 'chipModel' | 'isDisabledWithAccount'>>,
): Promise<void> {
  await db.update(devices).set(change).where(eq(devices.deviceId, deviceId));
}

/** Unless the device has another owner by now. */
export async function writeTags(db: Database, deviceId: string, ownerId: number, tags: string[]): Promise<void> {
  const isOwned = and(eq(devices.deviceId, deviceId), eq(devices.ownerId, ownerId));
  await db.update(devices).set({ tags }).where(isOwned);
}

/** Those of the ids that are of devices. */
export async function findDeviceIds(db: Database, deviceIds: readonly string[], productId?: number) {
  const isWanted = sql`${devices.deviceId} in (select value from json_each(${JSON.stringify(deviceIds)}))`;
  const isOfProduct = productId === undefined ? undefined : eq(devices.productId, productId);
  const rows = await db.select({ id: devices.deviceId }).from(devices).where(and(isWanted, isOfProduct));
  return new Set(rows.map(({ id }) => id));
}

export function selectDevices<More extends Record<string, SQL.Aliased>>(db: Database, more?: More) {
  return db
    .select({ ...withProduct, ...(more as More) })
    .from(devices)
    .innerJoin(products, eq(devices.productId, products.id));
}

export async function findDevice(db: Database, deviceId: string) {
  return selectDevices(db).where(eq(devices.deviceId, deviceId)).get();
}

/** Of an id or a serial number, which several products may have. Goes product by product, as the index on serials does. */
export async function findDevicesNamed(db: Database, name: string) {
  const ofAnyProduct = inArray(devices.productId, db.select({ id: products.id }).from(products));
  const isNamed = or(eq(devices.deviceId, name), and(ofAnyProduct, eq(devices.deviceSN, name)));
  return selectDevices(db).where(isNamed).limit(20);
}

export type DeviceFilter = Partial<Record<'productId' | 'ownerId' | 'memberId', number>> &
  Partial<Record<'isDisabledWithAccount' | 'isUnclaimed', true>>;
export type DeviceInRowOrder = Awaited<ReturnType<typeof listDevicesAfter>>[number];

export async function listDevicesAfter(db: Database, afterId: number, limit: number, filter: DeviceFilter = {}) {
  const { productId, ownerId, memberId, isDisabledWithAccount, isUnclaimed } = filter;
  const memberships = sql`(select device_row from ${deviceMembers} where user_id = ${memberId})`;
  const isWanted = and(
    gt(devices.id, afterId),
    productId === undefined ? undefined : eq(devices.productId, productId),
    ownerId === undefined ? undefined : eq(devices.ownerId, ownerId),
    memberId === undefined ? undefined : sql`${devices.id} in ${memberships}`,
    isDisabledWithAccount === undefined ? undefined : eq(devices.isDisabledWithAccount, true),
    isUnclaimed && and(isNull(devices.claimedAt), isNotNull(devices.activatedAt)),
  );
  return selectRecords(db).where(isWanted).orderBy(asc(devices.id)).limit(limit);
}

function selectRecords(db: Database) {
  const columns = { ...getTableColumns(devices), productKey: products.productKey, makerId: products.ownerId };
  return db.select(columns).from(devices).innerJoin(products, eq(devices.productId, products.id));
}

/** Nobody claimed them, nor registered their serials, and none was ever online. `after`: activation time and row of the device before. */
export async function listUnusedDevices(
  db: Database,
  after: [number, number],
  activatedBeforeMs: number,
  limit: number,
) {
  const isOld = and(isNotNull(devices.activatedAt), lt(devices.activatedAt, activatedBeforeMs));
  const isLater = sql`(${devices.activatedAt}, ${devices.id}) > (${after[0]}, ${after[1]})`;
  const isNobodys = and(isNull(devices.claimedAt), isNull(devices.registeredAt), eq(devices.isDisabled, false));
  return selectRecords(db)
    .where(and(isNull(devices.lastOnlineAt), isOld, isNobodys, isLater))
    .orderBy(asc(devices.activatedAt), asc(devices.id))
    .limit(limit);
}

export async function deleteRecord(db: Database, deviceId: string): Promise<void> {
  await db.delete(devices).where(eq(devices.deviceId, deviceId));
}

/** For a record without a session. Does nothing if a session has written since; any later projection replaces it. */
export async function markInactive(
  db: Database,
  { id, projectionVersion }: Pick<DeviceRow, 'id' | 'projectionVersion'>,
): Promise<void> {
  await db
    .update(devices)
    .set({ connectionStatus: 0, projectionVersion: -1 })
    .where(and(eq(devices.id, id), eq(devices.projectionVersion, projectionVersion)));
}

/** Set only with another owner: setting them rewrites their indexes. */
function ownerColumns({ ownerId, claimedAt }: Pick<DeviceRow, 'ownerId' | 'claimedAt'>) {
  const projectId = sql`coalesce((select ${users.projectId} from ${users} where ${users.id} = ${ownerId}), ${devices.projectId})`;
  const tags = sql`case when ${devices.ownerId} = ${ownerId} then ${devices.tags} else '[]' end`;
  return { ownerId, claimedAt, projectId, tags };
}

/** Writes each projection unless D1 has a newer one: writes may finish in any order. */
export async function writeProjections(
  database: Database,
  projections: readonly { deviceId: string; projection: Projection }[],
): Promise<void> {
  const offline = projections.filter(({ projection }) => projection.connectionStatus === 2 && !projection.isDisabled);
  const offlineIds = offline.map(({ deviceId }) => deviceId);
  const usages = projections.flatMap(({ deviceId, projection }) => addUsage(database, deviceId, projection));
  const updates = projections.map(({ deviceId, projection: { version, owner, usage, ...columns } }) =>
    database
      .update(devices)
      .set({ ...columns, ...(owner && ownerColumns(owner)), usageDay: usage?.at(-1)?.day, projectionVersion: version })
      .where(and(eq(devices.deviceId, deviceId), lt(devices.projectionVersion, version))),
  );
  const counting = offlineIds.length === 0 ? [] : [countGoingOffline(database, offlineIds)];
  const [first, ...others]: BatchItem<'sqlite'>[] = [...counting, ...usages, ...updates];
  if (first !== undefined) await database.batch([first, ...others]);
}

/** Devices that were due before then, the oldest first: their alarm was lost, or their projection is on its way. */
export function takeOverdue(
  database: Database,
  beforeMs: number,
  { againAtMs, limit }: Record<'againAtMs' | 'limit', number>,
) {
  const { id, deviceId, membersVersion, dueAt } = devices;
  const overdue = database.select({ id }).from(devices).where(lt(dueAt, beforeMs)).orderBy(asc(dueAt)).limit(limit);
  const taken = database.update(devices).set({ dueAt: againAtMs }).where(inArray(id, overdue));
  return taken.returning({ id, deviceId, membersVersion });
}
