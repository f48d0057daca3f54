// Queries on products, on their serial numbers and usage, and on changes that are still to be delivered. A deleted product keeps its row, so
// that its key stays reserved for its owner; only `insertProduct` reads such rows. A serial that was registered before it activates has a
// record without a session. Usage is sums of a day, to which each device adds its own with its projection.
import { and, asc, eq, isNull, notExists, sql, type SQL, between, getTableColumns, desc, inArray } from 'drizzle-orm';
import type { PageRequest } from '../../domain/pagination.ts';
import { findRow, insertSelect, runTogether, takeExcluded, type Database } from '../client.ts';
import { countOf, readPageByIndex, readPage } from '../pages.ts';
import { users } from '../schema/accounts.ts';
import { deviceCounts, devices } from '../schema/devices.ts';
import {
  productCategoryCounts,
  productChanges,
  productCounts,
  productDeviceCounts,
  products,
  productUsage,
} from '../schema/products.ts';
import { limitOf, type UserLimits } from '../accounts/users.ts';
import type { Projection } from '../../domain/device/core/events.ts';
import { secondsOf, sumOf } from '../../domain/device/usage/usage.ts';

export type ProductRow = typeof products.$inferSelect;
type NewProduct = Omit<ProductRow, 'id' | 'projectId' | 'deletedAt'>;
export type ProductFilter = { ownerId: number; productKey: string | undefined; category: string | undefined };
type ProductChanges = {
  [Name in keyof Omit<NewProduct, 'productKey' | 'ownerId'>]?: NewProduct[Name] | undefined;
};

type InsertedProduct =
  | { id: number }
  | 'no_owner'
  | 'key_taken'
  | { limit: { name: 'productsPerUser' | 'productKeysPerUser'; max: number } };

/** Keys of deleted products stay reserved: for each product that a user may have, so many in all. */
const keysPerProduct = 5;

/** The owner's own deleted product with that key is replaced. One statement that counts and inserts. */
export async function insertProduct(
  database: Database,
  product: NewProduct,
  limits: UserLimits<'productsPerUser'>,
): Promise<InsertedProduct> {
  const { ownerId, productKey } = product;
  const maxProducts = limitOf(ownerId, 'productsPerUser', limits);
  const maxKeys = sql`${keysPerProduct} * ${maxProducts}`;
  const isOwnDeleted = sql`(owner_id = ${ownerId} and deleted_at is not null)`;
  const ownerWithCounts = sql`${users} left join ${productCounts} on owner_id = id where id = ${ownerId}`;
  type Counts = { products: number; max_products: number; max_keys: number; is_taken: number };
  const [inserted, owner] = await runTogether<[{ id: number }, Counts]>(database, [
    sql`
      ${insertSelect(products, { ...product, projectId: sql`project_id` })}
      from ${ownerWithCounts} and coalesce(products, 0) < ${maxProducts}
        and (coalesce(product_keys, 0) < ${maxKeys}
          or exists (select 1 from ${products} where product_key = ${productKey} and ${isOwnDeleted}))
      on conflict (product_key) do update set
        ${takeExcluded(products, product, ['productKey', 'ownerId'])}, deleted_at = null
      where products.deleted_at is not null and products.owner_id = excluded.owner_id
      returning id`,
    sql`
      select coalesce(products, 0) as products, ${maxProducts} as max_products, ${maxKeys} as max_keys,
        exists (select 1 from ${products} where product_key = ${productKey} and not ${isOwnDeleted}) as is_taken
      from ${ownerWithCounts}`,
  ]);
  const [made] = inserted.results;
  if (made !== undefined) return made;
  const [counts] = owner.results;
  if (counts === undefined) return 'no_owner';
  if (counts.is_taken === 1) return 'key_taken';
  return counts.products >= counts.max_products
    ? { limit: { name: 'productsPerUser', max: counts.max_products } }
    : { limit: { name: 'productKeysPerUser', max: counts.max_keys } };
}

export async function findProduct(database: Database, productKey: string): Promise<ProductRow | undefined> {
  return findRow(database, products, and(eq(products.productKey, productKey), isNull(products.deletedAt)));
}

export async function readFigures(database: Database, productId: number, day: number) {
  const counts = productDeviceCounts;
  const online = database
    .select({ online: sql`coalesce(sum(${deviceCounts.online}), 0)` })
    .from(deviceCounts)
    .where(eq(deviceCounts.productId, productId));
  const figures = await database
    .select({
      devices: counts.devices,
      online: sql<number>`(${online})`,
      claimed: counts.claimed,
      activatedToday: sql<number>`iif(${counts.day} >= ${day}, ${counts.activatedInDay}, 0)`,
    })
    .from(counts)
    .where(eq(counts.productId, productId))
    .get();
  return figures ?? { devices: 0, online: 0, claimed: 0, activatedToday: 0 };
}

export async function listProducts(database: Database, filter: ProductFilter, page: PageRequest) {
  const { ownerId, productKey, category } = filter;
  const wanted = and(
    eq(products.ownerId, ownerId),
    isNull(products.deletedAt),
    productKey === undefined ? undefined : eq(products.productKey, productKey),
    category === undefined ? undefined : eq(products.category, category),
  );
  const list = { table: products, time: products.createdAt, id: products.id, where: wanted };
  const total = totalOf(database, filter, wanted);
  return readPageByIndex(database, total, database.select().from(products).$dynamic(), list, page);
}

function totalOf(database: Database, { ownerId, productKey, category }: ProductFilter, wanted: SQL | undefined) {
  if (productKey !== undefined) return countOf(database, products, wanted);
  if (category === undefined) {
    return database
      .select({ total: productCounts.products })
      .from(productCounts)
      .where(eq(productCounts.ownerId, ownerId));
  }
  const ofCategory = and(eq(productCategoryCounts.ownerId, ownerId), eq(productCategoryCounts.category, category));
  return database.select({ total: productCategoryCounts.products }).from(productCategoryCounts).where(ofCategory);
}

/** Undefined members keep their value. `updatedAt` grows, so that changes in one millisecond keep their order. */
export async function updateProduct(
  database: Database,
  productId: number,
  { updatedAt, ...changes }: ProductChanges & { updatedAt: number },
  isForDevices: boolean,
): Promise<ProductRow | undefined> {
  const update = database
    .update(products)
    .set({ ...changes, updatedAt: sql`max(${updatedAt}, ${products.updatedAt} + 1)` })
    .where(and(eq(products.id, productId), isNull(products.deletedAt)))
    .returning();
  if (!isForDevices) return (await update)[0];
  const changedAt = sql`(select ${products.updatedAt} from ${products} where ${products.id} = ${productId})`;
  const [[row]] = await database.batch([
    update,
    database
      .insert(productChanges)
      .values({ productId, changedAt, cursor: 0 })
      // A delivery under way goes on to its end and then begins again: changes without end starve no device.
      .onConflictDoUpdate({ target: productChanges.productId, set: { changedAt } }),
  ]);
  return row;
}

/** False when it has devices or does not exist. One statement, so that no device is activated in between. */
export async function deleteProduct(database: Database, productId: number, deletedAt: number): Promise<boolean> {
  const itsDevices = database.select({ id: devices.id }).from(devices).where(eq(devices.productId, productId));
  const deleted = await database
    .update(products)
    .set({ deletedAt })
    .where(and(eq(products.id, productId), isNull(products.deletedAt), notExists(itsDevices)))
    .returning({ id: products.id });
  return deleted.length === 1;
}

export async function listChangedProducts(database: Database, limit: number): Promise<number[]> {
  const rows = await database
    .select({ productId: productChanges.productId })
    .from(productChanges)
    .orderBy(asc(productChanges.changedAt))
    .limit(limit);
  return rows.map(({ productId }) => productId);
}

export async function findProductWithChange(database: Database, productId: number) {
  return database
    .select({ product: products, pending: productChanges })
    .from(products)
    .leftJoin(productChanges, eq(productChanges.productId, products.id))
    .where(eq(products.id, productId))
    .get();
}

export async function moveCursor(database: Database, productId: number, cursor: number): Promise<void> {
  await database.update(productChanges).set({ cursor }).where(eq(productChanges.productId, productId));
}

/** Whether the change of that time was the last one: it is delivered. */
export async function finishProductChange(database: Database, productId: number, changedAt: number): Promise<boolean> {
  const isOfThen = and(eq(productChanges.productId, productId), eq(productChanges.changedAt, changedAt));
  const result = await database.delete(productChanges).where(isOfThen);
  return result.meta.changes === 1;
}

const { productId, day, ...sums } = getTableColumns(productUsage);
const added = Object.fromEntries(
  Object.entries(sums).map(([name, column]) => [name, sql.raw(`${column.name} + excluded.${column.name}`)] as const),
);

/** For a batch that then writes the projection: adds nothing if D1 has the projection, or the day, already. */
export function addUsage(database: Database, deviceId: string, { version, usage = [] }: Projection) {
  return usage.map((one) => {
    const { onSeconds, offSeconds, unknownSeconds } = secondsOf(one);
    const seconds = sql`${onSeconds}, ${offSeconds}, ${unknownSeconds}`;
    const isNew = sql`device_id = ${deviceId} and projection_version < ${version} and usage_day < ${one.day}`;
    return database
      .insert(productUsage)
      .select(
        sql`select product_id, ${one.day}, 1, ${seconds}, ${sumOf(one.presses)}, ${one.failures} from ${devices} where ${isNew}`,
      )
      .onConflictDoUpdate({ target: [productId, day], set: added });
  });
}

/** Oldest first. */
export function listProductUsage(database: Database, product: number, first: number, last: number) {
  const isWanted = and(eq(productId, product), between(day, first, last));
  const columns = { day, ...sums };
  return database.select(columns).from(productUsage).where(isWanted).orderBy(asc(day));
}

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
