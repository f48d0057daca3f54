// Queries on `device_due`: written with the projections of devices, read by the minute's job. A time that has passed belongs to a
// device whose alarm was lost, or whose projection is on its way.
import { asc, eq, inArray, lt, sql } from 'drizzle-orm';
import type { Database } from '../client.ts';
import { deviceDue, devices } from '../schema/devices.ts';

/** Only with the projection of this version: after it in a batch. */
export function writeDue(database: Database, deviceId: string, version: number, atMs: number | null) {
  const written = sql`from ${devices} where device_id = ${deviceId} and projection_version = ${version}`;
  if (atMs === null) return database.delete(deviceDue).where(sql`${deviceDue.deviceRow} = (select id ${written})`);
  return database
    .insert(deviceDue)
    .select(sql`select id, ${atMs} ${written}`)
    .onConflictDoUpdate({ target: deviceDue.deviceRow, set: { dueAt: atMs } });
}

/** Devices that were due before then, the oldest first. Each comes again at `againAtMs` unless it writes its own time. */
export async function takeOverdue(database: Database, beforeMs: number, againAtMs: number, limit: number) {
  const overdue = await database
    .select({ id: devices.id, deviceId: devices.deviceId })
    .from(deviceDue)
    .innerJoin(devices, eq(devices.id, deviceDue.deviceRow))
    .where(lt(deviceDue.dueAt, beforeMs))
    .orderBy(asc(deviceDue.dueAt))
    .limit(limit);
  const rows = sql`(select value from json_each(${JSON.stringify(overdue.map(({ id }) => id))}))`;
  if (overdue.length > 0) {
    await database.update(deviceDue).set({ dueAt: againAtMs }).where(inArray(deviceDue.deviceRow, rows));
  }
  return overdue;
}

export async function forgetDue(database: Database, deviceRow: number): Promise<void> {
  await database.delete(deviceDue).where(eq(deviceDue.deviceRow, deviceRow));
}
