// Delivers a product's changed settings to the sessions of its devices. D1 records the pending delivery together with the
// change, so that it outlives the request: started at once, continued every minute. Does not change products.
import { listDeviceIds } from '../db/devices.ts';
import { finishProductChange, listProductChanges, moveCursor, type ProductChange } from '../db/product-changes.ts';
import { callDevice } from '../durable/stubs.ts';
import { describeError, log } from '../log.ts';
import type { ServiceContext } from './context.ts';

/** One invocation may call 1 000 objects; the next minute's run continues. */
const pageSize = 100;
const pagesPerRun = 8;

/**
 * Pending changes of all products, or of the one that was just changed. A product whose delivery fails does not hold up
 * the others.
 */
export async function propagateProductChanges(context: ServiceContext, productId?: number): Promise<void> {
  let pagesLeft = pagesPerRun;
  for (const change of await listProductChanges(context.primary(), pagesPerRun, productId)) {
    if (pagesLeft === 0) return;
    try {
      pagesLeft -= await deliverChange(context, change, pagesLeft);
    } catch (error) {
      const { productId } = change;
      log('warn', 'product change not delivered to all devices yet', { productId, ...describeError(error) });
      pagesLeft -= 1;
    }
  }
}

/** @returns the number of pages it took */
async function deliverChange(
  { env, primary }: ServiceContext,
  change: ProductChange,
  maxPages: number,
): Promise<number> {
  const database = primary();
  const { productId, controlMode, offlineGraceSeconds, changedAt: productChangedAtMs } = change;
  const settings = { controlMode, offlineGraceSeconds, productChangedAtMs };
  let { cursor } = change;
  for (let pages = 1; pages <= maxPages; pages++) {
    const page = await listDeviceIds(database, productId, cursor, pageSize);
    await Promise.all(
      page.map(({ deviceId }) =>
        callDevice(env, deviceId, 'changeProduct', 'idempotent', (device) => device.changeProduct(settings)),
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
