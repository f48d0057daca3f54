// Queries on product changes that are not yet delivered to all devices. They are recorded with the change itself, in
// products.ts.
import { and, asc, eq } from 'drizzle-orm';
import type { Database } from './client.ts';
import { productChanges, products } from './schema.ts';

export type ProductChange = Awaited<ReturnType<typeof listProductChanges>>[number];
type ChangeKey = Pick<ProductChange, 'productId' | 'changedAt'>;

/** Each with the product as it is now; that of one product where `productId` is given. */
export async function listProductChanges(database: Database, limit: number, productId?: number) {
  return database
    .select({
      productId: productChanges.productId,
      changedAt: productChanges.changedAt,
      cursor: productChanges.cursor,
      controlMode: products.controlMode,
      offlineGraceSeconds: products.offlineGraceSeconds,
    })
    .from(productChanges)
    .innerJoin(products, eq(productChanges.productId, products.id))
    .where(productId === undefined ? undefined : eq(productChanges.productId, productId))
    .orderBy(asc(productChanges.productId))
    .limit(limit);
}

/** Does nothing where the product changed again meanwhile: then delivery starts over. */
export async function moveCursor(database: Database, change: ChangeKey, cursor: number): Promise<void> {
  await database.update(productChanges).set({ cursor }).where(isSameChange(change));
}

/** Does nothing where the product changed again meanwhile. */
export async function finishProductChange(database: Database, change: ChangeKey): Promise<void> {
  await database.delete(productChanges).where(isSameChange(change));
}

function isSameChange({ productId, changedAt }: ChangeKey) {
  return and(eq(productChanges.productId, productId), eq(productChanges.changedAt, changedAt));
}
