// Queries on what the operator has changed while the service runs.
import { eq } from 'drizzle-orm';
import type { Database } from './client.ts';
import { serviceSettings } from './schema/accounts.ts';

type SettingName = (typeof serviceSettings.$inferSelect)['name'];

export async function readSetting(database: Database, name: SettingName): Promise<string | undefined> {
  const row = await database.select().from(serviceSettings).where(eq(serviceSettings.name, name)).get();
  return row?.value;
}

export async function writeSetting(database: Database, name: SettingName, value: string): Promise<void> {
  await database
    .insert(serviceSettings)
    .values({ name, value })
    .onConflictDoUpdate({ target: serviceSettings.name, set: { value } });
}
