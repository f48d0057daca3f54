// The usage of a product's devices: sums of a day, which each device adds to with its projection.
import { and, asc, between, eq, getTableColumns, sql } from 'drizzle-orm';
import type { Database } from '../client.ts';
import { devices } from '../schema/devices.ts';
import { productUsage } from '../schema/products.ts';
import type { Projection } from '../../domain/device/core/events.ts';

const { productId, day, ...sums } = getTableColumns(productUsage);

/** For a batch that then writes the projection: adds nothing if D1 has the projection, or the day, already. */
export function addUsage(database: Database, deviceId: string, { version, usage }: Projection) {
  return usage.map((one) => {
    const values = sql.join(
      [one.day, 1, ...Object.values(one.sums)].map((value) => sql`${value}`),
      sql`, `,
    );
    const isNew = sql`device_id = ${deviceId} and projection_version < ${version} and usage_day < ${one.day}`;
    const added = Object.entries(sums).map(([name, column]) => [
      name,
      sql`${column} + ${sql.raw(`excluded.${column.name}`)}`,
    ]);
    return database
      .insert(productUsage)
      .select(sql`select product_id, ${values} from ${devices} where ${isNew}`)
      .onConflictDoUpdate({ target: [productId, day], set: Object.fromEntries(added) });
  });
}

/** Oldest first. */
export function listProductUsage(
  database: Database,
  product: number,
  { first, last }: Record<'first' | 'last', number>,
) {
  const isWanted = and(eq(productId, product), between(day, first, last));
  return database
    .select({ day, ...sums })
    .from(productUsage)
    .where(isWanted)
    .orderBy(asc(day));
}
