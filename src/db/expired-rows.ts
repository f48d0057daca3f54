// Deletes expired rows, some of each table at a time, by the index on their expiry.
import { lt, sql, type SQL } from 'drizzle-orm';
import { runTogether, type Database } from './client.ts';
import { loginAttempts, loginDevices, passwordResets, refreshTokens } from './schema/accounts.ts';
import { brokerOutbox, claimTokens, deviceInvitations, deviceTransfers } from './schema/devices.ts';
import { hourMs } from '../domain/time.ts';

/** Delivered entries stay that long, so that a request that began earlier and ends later is still known as outdated. */
const deliveredEntryLifeMs = hourMs;

const rowsPerRun = 5_000;

const expiring = [
  refreshTokens,
  loginAttempts,
  loginDevices,
  deviceInvitations,
  passwordResets,
  claimTokens,
  deviceTransfers,
] as const;

export async function deleteExpiredRows(database: Database, nowMs: number, maxRows = rowsPerRun): Promise<void> {
  const someOf = (table: (typeof expiring)[number] | typeof brokerOutbox, isOver: SQL) =>
    sql`delete from ${table} where rowid in (select rowid from ${table} where ${isOver} limit ${maxRows})`;
  await runTogether<unknown[]>(database, [
    ...expiring.map((table) => someOf(table, lt(table.expiresAt, nowMs))),
    someOf(brokerOutbox, lt(brokerOutbox.deliveredAt, nowMs - deliveredEntryLifeMs)),
  ]);
}
