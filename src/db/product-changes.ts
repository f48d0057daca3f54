// Queries on product changes that devices' sessions have yet to hear of. Written with the change itself, in products.ts.
import { and, asc, eq } from 'drizzle-orm';
import type { Database } from './client.ts';
import { productChanges, products } from './schema.ts';

/** Changes still being told, with the product as it is now; oldest first. */
export async function listProductChanges(database: Database, limit: number) {
  return database
    .select({
      productId: productChanges.productId,
      changedAt: productChanges.changedAt,
      toldUpTo: productChanges.toldUpTo,
      controlMode: products.controlMode,
      offlineGraceSeconds: products.offlineGraceSeconds,
    })
    .from(productChanges)
    .innerJoin(products, eq(productChanges.productId, products.id))
    .orderBy(asc(productChanges.productId))
    .limit(limit);
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
