// The usage of a product's devices: sums of a day, to which each device adds its own with its projection.
import { and, asc, between, eq, getTableColumns, sql } from 'drizzle-orm';
import type { Database } from '../client.ts';
import { devices } from '../schema/devices.ts';
import { productUsage } from '../schema/products.ts';
import type { Projection } from '../../domain/device/core/events.ts';
import { secondsOf, sumOf } from '../../domain/device/usage/usage.ts';

const { productId, day, ...sums } = getTableColumns(productUsage);
const added = Object.fromEntries(
  Object.entries(sums).map(([name, column]) => [name, sql.raw(`${column.name} + excluded.${column.name}`)] as const),
);

/** For a batch that then writes the projection: adds nothing if D1 has the projection, or the day, already. */
export function addUsage(database: Database, deviceId: string, { version, usage = [] }: Projection) {
  return usage.map((one) => {
    const { onSeconds, offSeconds, unknownSeconds } = secondsOf(one);
    const seconds = sql`${onSeconds}, ${offSeconds}, ${unknownSeconds}`;
    const isNew = sql`device_id = ${deviceId} and projection_version < ${version} and usage_day < ${one.day}`;
    return database
      .insert(productUsage)
      .select(
        sql`select product_id, ${one.day}, 1, ${seconds}, ${sumOf(one.presses)}, ${one.failures} from ${devices} where ${isNew}`,
      )
      .onConflictDoUpdate({ target: [productId, day], set: added });
  });
}

/** Oldest first. */
export function listProductUsage(database: Database, product: number, first: number, last: number) {
  const isWanted = and(eq(productId, product), between(day, first, last));
  const columns = { day, ...sums };
  return database.select(columns).from(productUsage).where(isWanted).orderBy(asc(day));
}
