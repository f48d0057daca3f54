// Queries on devices that have logged in to an account before: tokens that only tell their client from strangers.
import { and, eq, gt, sql } from 'drizzle-orm';
import { runTogether, type Database } from '../client.ts';
import { loginDevices } from '../schema/accounts.ts';

type LoginDeviceRow = typeof loginDevices.$inferSelect;

export async function isLoginDevice(database: Database, hash: string, userId: number, nowMs: number): Promise<boolean> {
  const { hash: storedHash, userId: ofUser, expiresAt } = loginDevices;
  const isIt = and(eq(storedHash, hash), eq(ofUser, userId), gt(expiresAt, nowMs));
  return (await database.select({ hash: storedHash }).from(loginDevices).where(isIt).get()) !== undefined;
}

/** Of more than `maxDevices`, those go first that were never shown again: a client that keeps no token gets one a login. */
export async function keepLoginDevice(database: Database, device: LoginDeviceRow, maxDevices: number): Promise<void> {
  await runTogether<[unknown, unknown, unknown]>(database, [
    sql`
      insert into ${loginDevices} (hash, user_id, created_at, shown_at, expires_at)
      values (${device.hash}, ${device.userId}, ${device.createdAt}, ${device.shownAt}, ${device.expiresAt})
      on conflict (hash) do update set shown_at = excluded.shown_at, expires_at = excluded.expires_at`,
    sql`
      delete from ${loginDevices} where hash in (
        select hash from ${loginDevices} where user_id = ${device.userId} and hash <> ${device.hash}
        order by shown_at desc, created_at desc limit -1 offset ${maxDevices - 1})`,
    sql`
      delete from ${loginDevices}
      where hash in (select hash from ${loginDevices} where expires_at <= ${device.createdAt} limit 10)`,
  ]);
}
