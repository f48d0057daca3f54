// Tells the devices of a changed product what their hot paths need of it. The work is noted in D1 with the change, so
// that it outlives the request: begun at once, continued every minute. Decides nothing about the change itself.
import { openDatabase, type Database } from '../db/client.ts';
import { listDeviceIds } from '../db/devices.ts';
import {
  findProductChange,
  finishProductChange,
  listProductChanges,
  recordTold,
  type ProductChange,
} from '../db/product-changes.ts';
import { callDevice } from '../durable/stubs.ts';
import { describeError, log } from '../log.ts';
import type { ServiceContext } from './context.ts';

/** One invocation may call 1 000 objects; the rest waits for the next minute. */
const pageSize = 100;
const pagesAtOnce = 8;

/** The first pages of one product, right after its change. */
export async function propagateProductChange({ env }: ServiceContext, productId: number): Promise<void> {
  const database = openDatabase(env.DB, 'first-primary');
  const change = await findProductChange(database, productId);
  if (change !== undefined) await tellDevices(env, database, change, pagesAtOnce);
}

/** What is left to tell of every product: one that cannot go on holds up none of the others. */
export async function propagateProductChanges({ env }: ServiceContext): Promise<void> {
  const database = openDatabase(env.DB, 'first-primary');
  let pagesLeft = pagesAtOnce;
  for (const change of await listProductChanges(database, pagesAtOnce)) {
    if (pagesLeft === 0) return;
    try {
      pagesLeft -= await tellDevices(env, database, change, pagesLeft);
    } catch (error) {
      log('warn', 'product change not told yet', { productId: change.productId, ...describeError(error) });
      pagesLeft -= 1;
    }
  }
}

/** How many pages it took. */
async function tellDevices(env: Env, database: Database, change: ProductChange, maxPages: number): Promise<number> {
  const { productId, controlMode, offlineGraceSeconds, changedAt: productChangedAtMs } = change;
  let { toldUpTo } = change;
  for (let pages = 1; pages <= maxPages; pages++) {
    const page = await listDeviceIds(database, productId, toldUpTo, pageSize);
    const told = { controlMode, offlineGraceSeconds, productChangedAtMs };
    await Promise.all(
      page.map(({ deviceId }) =>
        callDevice(env, deviceId, 'changeProduct', 'repeatable', (device) => device.changeProduct(told)),
      ),
    );
    toldUpTo = page.at(-1)?.id ?? toldUpTo;
    if (page.length < pageSize) {
      await finishProductChange(database, change);
      return pages;
    }
    await recordTold(database, change, toldUpTo);
  }
  return maxPages;
}
