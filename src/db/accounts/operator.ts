// Queries for what an operator does to whole accounts and to the sign-up, which registering reads, too.
import { eq, sql } from 'drizzle-orm';
import { findRow, runTogether, type Database } from '../client.ts';
import { lengthOf } from '../pages.ts';
import {
  apiKeys,
  blockedSenders,
  collections,
  emailVerifications,
  loginDevices,
  passwordResets,
  refreshTokens,
  securityEvents,
  serviceSettings,
  userLimits,
  users,
} from '../schema/accounts.ts';
import { claimTokens, deviceInvitations, deviceMembers, devices, deviceTransfers } from '../schema/devices.ts';
import { products } from '../schema/products.ts';

export async function disableUser(database: Database, userId: number, disabledAt: number | null): Promise<void> {
  const tables = [claimTokens, refreshTokens, passwordResets];
  await runTogether<unknown[]>(database, [
    sql`update ${users} set disabled_at = ${disabledAt} where id = ${userId}`,
    ...tables.map((table) => sql`delete from ${table} where user_id = ${userId}`),
  ]);
}

/** Keeps the row without names: product keys stay reserved. A product with devices of others stays, disabled. */
export async function eraseUser(database: Database, userId: number, nowMs: number): Promise<void> {
  const name = `deleted-${userId}`;
  const logins = [apiKeys, refreshTokens, loginDevices, passwordResets, emailVerifications];
  const tables = [...logins, securityEvents, userLimits, collections];
  await runTogether<unknown[]>(database, [
    ...tables.map((table) => sql`delete from ${table} where user_id = ${userId}`),
    sql`delete from ${blockedSenders} where user_id = ${userId} or sender_id = ${userId}`,
    sql`delete from ${deviceInvitations} where invited_by = ${userId}`,
    sql`delete from ${deviceTransfers} where to_user_id = ${userId}`,
    sql`
      update ${products} set deleted_at = ${nowMs}
      where owner_id = ${userId} and deleted_at is null
        and not exists (select 1 from ${devices} where product_id = ${products.id})`,
    sql`update ${products} set status = 0 where owner_id = ${userId} and deleted_at is null`,
    sql`
      update ${users} set username = ${name}, email = ${name}, folded_username = ${name}, folded_email = ${name},
        password_hash = '', disabled_at = ${nowMs} where id = ${userId}`,
  ]);
}

/** The key of a product of the user of which somebody else has a device. */
export async function findProductOfOthers(database: Database, userId: number): Promise<string | undefined> {
  const [row] = await database.all<{ key: string }>(sql`
    select product_key as key from ${products} where owner_id = ${userId} and exists
      (select 1 from ${devices} where product_id = ${products.id} and ${devices.ownerId} <> ${userId}) limit 1`);
  return row?.key;
}

/** A user who was erased since then, with devices or memberships that are left. */
export async function findErasedUser(database: Database, sinceMs: number): Promise<number | undefined> {
  const [row] = await database.all<{ id: number }>(sql`
    select id from ${users} where disabled_at > ${sinceMs} and password_hash = '' and (
      exists (select 1 from ${devices} where ${devices.ownerId} = ${users.id})
      or exists (select 1 from ${deviceMembers} where ${deviceMembers.userId} = ${users.id})) limit 1`);
  return row?.id;
}

export async function countUsers(database: Database) {
  const [counted] = await database.all<{ enabled: number; disabled: number }>(
    sql`select ${lengthOf('users', 'enabled')} as enabled, ${lengthOf('users', 'disabled')} as disabled`,
  );
  return counted ?? { enabled: 0, disabled: 0 };
}

type SettingName = (typeof serviceSettings.$inferSelect)['name'];

export async function readSetting(database: Database, name: SettingName): Promise<string | undefined> {
  return (await findRow(database, serviceSettings, eq(serviceSettings.name, name)))?.value;
}

export async function writeSetting(database: Database, name: SettingName, value: string): Promise<void> {
  await database
    .insert(serviceSettings)
    .values({ name, value })
    .onConflictDoUpdate({ target: serviceSettings.name, set: { value } });
}
