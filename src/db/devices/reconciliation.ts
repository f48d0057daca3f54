// Queries of the reconciliation of device records with their sessions. What it mends is decided in
// services/operations/reconciliation.ts.
import { and, asc, eq, gt, sql } from 'drizzle-orm';
import type { Database } from '../client.ts';
import { devices, reconciliation } from '../schema/devices.ts';
import { products } from '../schema/products.ts';

export type Reconciliation = typeof reconciliation.$inferSelect;
export type Findings = Pick<Reconciliation, 'checked' | 'inactive' | 'deleted' | 'failed'>;
export type ComparedRecord = Awaited<ReturnType<typeof listRecords>>[number];

const isTheRow = eq(reconciliation.id, 1);

export async function findReconciliation(db: Database): Promise<Reconciliation | undefined> {
  return db.select().from(reconciliation).where(isTheRow).get();
}

/** Starts over, whatever the one before has reached. */
export async function beginReconciliation(db: Database, startedAt: number): Promise<Reconciliation> {
  const row = { id: 1, startedAt, finishedAt: null, cursor: 0, checked: 0, inactive: 0, deleted: 0, failed: 0 };
  await db.insert(reconciliation).values(row).onConflictDoUpdate({ target: reconciliation.id, set: row });
  return row;
}

/** Records in row order, after the cursor. */
export async function listRecords(db: Database, cursor: number, limit: number) {
  return db
    .select({
      id: devices.id,
      deviceId: devices.deviceId,
      productKey: products.productKey,
      status: devices.status,
      projectionVersion: devices.projectionVersion,
      membersVersion: devices.membersVersion,
      claimedAt: devices.claimedAt,
      createdAt: devices.createdAt,
    })
    .from(devices)
    .innerJoin(products, eq(devices.productId, products.id))
    .where(gt(devices.id, cursor))
    .orderBy(asc(devices.id))
    .limit(limit);
}

/** Any projection replaces it. Does nothing where a session has written since. */
export async function markInactive(db: Database, { id, projectionVersion }: ComparedRecord): Promise<void> {
  await db
    .update(devices)
    .set({ connectionStatus: 0, projectionVersion: -1 })
    .where(and(eq(devices.id, id), eq(devices.projectionVersion, projectionVersion)));
}

/** Does nothing where another run has taken the same slice, or a new reconciliation began. */
export async function moveOn(
  db: Database,
  before: Reconciliation,
  { cursor, finishedAt, ...found }: Findings & Pick<Reconciliation, 'cursor' | 'finishedAt'>,
): Promise<void> {
  await db
    .update(reconciliation)
    .set({
      cursor,
      finishedAt,
      checked: sql`${reconciliation.checked} + ${found.checked}`,
      inactive: sql`${reconciliation.inactive} + ${found.inactive}`,
      deleted: sql`${reconciliation.deleted} + ${found.deleted}`,
      failed: sql`${reconciliation.failed} + ${found.failed}`,
    })
    .where(and(isTheRow, eq(reconciliation.startedAt, before.startedAt), eq(reconciliation.cursor, before.cursor)));
}
