// What metrics know from D1 alone, kept in `service_settings`: when each scheduled job last succeeded, and how often a device went
// offline. Nothing else depends on it.
import { inArray, sql } from 'drizzle-orm';
import type { Database } from './client.ts';
import { serviceSettings } from './schema/accounts.ts';
import { devices } from './schema/devices.ts';

const { name, value } = serviceSettings;

export async function noteJobsDone(database: Database, jobs: string[], nowMs: number): Promise<void> {
  const doneAtMs = JSON.stringify(Object.fromEntries(jobs.map((job) => [job, nowMs])));
  await database
    .insert(serviceSettings)
    .values({ name: 'jobs_done', value: doneAtMs })
    .onConflictDoUpdate({ target: name, set: { value: sql`json_patch(${value}, excluded.value)` } });
}

/** For a batch that then writes these devices as offline: counts those that are online in D1. */
export function countGoingOffline(database: Database, deviceIds: string[]) {
  const online = sql`select count(*) as online from ${devices} where ${inArray(devices.deviceId, deviceIds)} and status = 1`;
  return database
    .insert(serviceSettings)
    .select(sql`select 'gone_offline', online from (${online}) where online > 0`)
    .onConflictDoUpdate({ target: name, set: { value: sql`${value} + excluded.value` } });
}

export async function readMeasurements(database: Database, nowMs: number) {
  const rows = await database.select().from(serviceSettings);
  const saved = Object.fromEntries(rows.map((row) => [row.name, row.value]));
  const jobs = Object.entries(JSON.parse(saved['jobs_done'] ?? '{}') as Record<string, number>);
  const ages = jobs.map(([job, doneAtMs]) => [job, Math.max(0, Math.round((nowMs - doneAtMs) / 1000))] as const);
  return { jobAgeSeconds: Object.fromEntries(ages), goneOffline: Number(saved['gone_offline'] ?? 0) };
}
