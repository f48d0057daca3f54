// Tells the devices of a changed product what their hot paths need of it. The work is noted in D1 with the change, so
// that it outlives the request: begun at once, continued every minute. Decides nothing about the change itself.
import { openDatabase } from '../db/client.ts';
import { listDeviceIds } from '../db/devices.ts';
import { finishProductChange, listProductChanges, recordTold } from '../db/product-changes.ts';
import { deviceSession } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

/** One invocation may call 1 000 objects; the rest waits for the next minute. */
const pageSize = 100;
const pagesAtOnce = 8;

export async function propagateProductChanges({ env }: ServiceContext): Promise<void> {
  const database = openDatabase(env.DB, 'first-primary');
  let pagesLeft = pagesAtOnce;
  for (const change of await listProductChanges(database, pagesAtOnce)) {
    let { toldUpTo } = change;
    for (; pagesLeft > 0; pagesLeft -= 1) {
      const page = await listDeviceIds(database, change.productId, toldUpTo, pageSize);
      const { controlMode, offlineGraceSeconds, changedAt } = change;
      await Promise.all(
        page.map(({ deviceId }) =>
          deviceSession(env, deviceId).changeProduct({
            controlMode,
            offlineGraceSeconds,
            productChangedAtMs: changedAt,
          }),
        ),
      );
      toldUpTo = page.at(-1)?.id ?? toldUpTo;
      if (page.length < pageSize) {
        await finishProductChange(database, change);
        break;
      }
      await recordTold(database, change, toldUpTo);
    }
  }
}
