// Queries on product changes that devices' sessions have yet to hear of. Written with the change itself, in products.ts.
import { and, asc, eq } from 'drizzle-orm';
import type { Database } from './client.ts';
import { productChanges, products } from './schema.ts';

export type ProductChange = Awaited<ReturnType<typeof listProductChanges>>[number];

/** Products whose change is still being told. */
export async function listProductChanges(database: Database, limit: number) {
  return queryChanges(database).orderBy(asc(productChanges.productId)).limit(limit);
}

export async function findProductChange(database: Database, productId: number): Promise<ProductChange | undefined> {
  return queryChanges(database).where(eq(productChanges.productId, productId)).get();
}

/** With the product as it is now. */
function queryChanges(database: Database) {
  return database
    .select({
      productId: productChanges.productId,
      changedAt: productChanges.changedAt,
      toldUpTo: productChanges.toldUpTo,
      controlMode: products.controlMode,
      offlineGraceSeconds: products.offlineGraceSeconds,
    })
    .from(productChanges)
    .innerJoin(products, eq(productChanges.productId, products.id));
}

/** Unless the product changed again meanwhile: then its work starts anew. */
export async function recordTold(
  database: Database,
  change: { productId: number; changedAt: number },
  toldUpTo: number,
) {
  await database.update(productChanges).set({ toldUpTo }).where(isSameChange(change));
}

export async function finishProductChange(database: Database, change: { productId: number; changedAt: number }) {
  await database.delete(productChanges).where(isSameChange(change));
}

function isSameChange({ productId, changedAt }: { productId: number; changedAt: number }) {
  return and(eq(productChanges.productId, productId), eq(productChanges.changedAt, changedAt));
}
