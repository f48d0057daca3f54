// Delivers a product's changed settings to the sessions of its devices. D1 records the pending delivery together with the
// change, so that it outlives the request: started at once, continued every minute. Does not change products.
import { openDatabase, type Database } from '../db/client.ts';
import { listDeviceIds } from '../db/devices.ts';
import {
  findProductChange,
  finishProductChange,
  listProductChanges,
  moveCursor,
  type ProductChange,
} from '../db/product-changes.ts';
import { callDevice } from '../durable/stubs.ts';
import { describeError, log } from '../log.ts';
import type { ServiceContext } from './context.ts';

/** One invocation may call 1 000 objects; the next minute's run continues. */
const pageSize = 100;
const pagesPerRun = 8;

/** The first pages of one product, right after its change. Never rejects: the schedule continues what failed. */
export async function propagateProductChange({ env }: ServiceContext, productId: number): Promise<void> {
  try {
    const database = openDatabase(env.DB, 'first-primary');
    const change = await findProductChange(database, productId);
    if (change !== undefined) await deliverChange(env, database, change, pagesPerRun);
  } catch (error) {
    logDelayed(productId, error);
  }
}

/** Pending changes of all products. A product whose delivery fails does not hold up the others. */
export async function propagateProductChanges({ env }: ServiceContext): Promise<void> {
  const database = openDatabase(env.DB, 'first-primary');
  let pagesLeft = pagesPerRun;
  for (const change of await listProductChanges(database, pagesPerRun)) {
    if (pagesLeft === 0) return;
    try {
      pagesLeft -= await deliverChange(env, database, change, pagesLeft);
    } catch (error) {
      logDelayed(change.productId, error);
      pagesLeft -= 1;
    }
  }
}

/** @returns the number of pages it took */
async function deliverChange(env: Env, database: Database, change: ProductChange, maxPages: number): Promise<number> {
  const { productId, controlMode, offlineGraceSeconds, changedAt: productChangedAtMs } = change;
  const settings = { controlMode, offlineGraceSeconds, productChangedAtMs };
  let { cursor } = change;
  for (let pages = 1; pages <= maxPages; pages++) {
    const page = await listDeviceIds(database, productId, cursor, pageSize);
    await Promise.all(
      page.map(({ deviceId }) =>
        callDevice(env, deviceId, 'changeProduct', 'repeatable', (device) => device.changeProduct(settings)),
      ),
    );
    cursor = page.at(-1)?.id ?? cursor;
    if (page.length < pageSize) {
      await finishProductChange(database, change);
      return pages;
    }
    await moveCursor(database, change, cursor);
  }
  return maxPages;
}

function logDelayed(productId: number, error: unknown): void {
  log('warn', 'product change not delivered to all devices yet', { productId, ...describeError(error) });
}
