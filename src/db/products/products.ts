// Queries on products and on changes that are still to be delivered. A deleted product keeps its row, so that its key stays
// reserved for its owner; only `insertProduct` reads such rows.
import { and, asc, eq, isNull, notExists, sql, type SQL } from 'drizzle-orm';
import type { PageRequest } from '../../domain/pagination.ts';
import { findRow, insertSelect, runTogether, takeExcluded, type Database } from '../client.ts';
import { countOf, readPageByIndex } from '../pages.ts';
import { users } from '../schema/accounts.ts';
import { deviceCounts, devices } from '../schema/devices.ts';
import {
  productCategoryCounts,
  productChanges,
  productCounts,
  productDeviceCounts,
  products,
} from '../schema/products.ts';
import { limitOf, type UserLimits } from '../accounts/user-limits.ts';

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
