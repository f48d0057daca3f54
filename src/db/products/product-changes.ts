// Queries on product changes that are not yet delivered to all devices. They are recorded with the change itself, in
// products.ts.
import { and, asc, eq } from 'drizzle-orm';
import type { Database } from '../client.ts';
import { productChanges, products } from '../schema/products.ts';

export async function listChangedProducts(database: Database, limit: number): Promise<number[]> {
  const rows = await database
    .select({ productId: productChanges.productId })
    .from(productChanges)
    .orderBy(asc(productChanges.changedAt))
    .limit(limit);
  return rows.map(({ productId }) => productId);
}

export async function findProductFacts(database: Database, productId: number) {
  return database
    .select({
      controlMode: products.controlMode,
      offlineGraceSeconds: products.offlineGraceSeconds,
      updatedAt: products.updatedAt,
      pending: { changedAt: productChanges.changedAt, cursor: productChanges.cursor },
    })
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
