// Deletes expired rows, some of each table at a time, by the index on their expiry.
import { lt, lte, sql, type SQL } from 'drizzle-orm';
import type { SQLiteTable } from 'drizzle-orm/sqlite-core';
import { runTogether, type Database } from './client.ts';
import {
  emailVerifications,
  loginAttempts,
  loginDevices,
  passwordResets,
  refreshTokens,
  securityEvents,
} from './schema/accounts.ts';
import { brokerOutbox, claimTokens, deviceInvitations, deviceTransfers } from './schema/devices.ts';
import { productUsage } from './schema/products.ts';
import { daysKept } from '../domain/device/core/history.ts';
import { dayMs, hourMs } from '../domain/time.ts';

/** Delivered entries stay that long, so that a request that began earlier and ends later is still known as outdated. */
const deliveredEntryLifeMs = hourMs;

export const securityEventLifeMs = 90 * dayMs;

const rowsPerRun = 5_000;

const expiring = [
  refreshTokens,
  loginAttempts,
  loginDevices,
  deviceInvitations,
  passwordResets,
  emailVerifications,
  claimTokens,
  deviceTransfers,
] as const;

export async function deleteExpiredRows(database: Database, nowMs: number, maxRows = rowsPerRun): Promise<void> {
  await runTogether<unknown[]>(database, [
    ...expiring.map((table) => purge(table, nowMs, maxRows)),
    deleteSome(brokerOutbox, lt(brokerOutbox.deliveredAt, nowMs - deliveredEntryLifeMs), maxRows),
    deleteSome(securityEvents, lt(securityEvents.createdAt, nowMs - securityEventLifeMs), maxRows),
    deleteSome(productUsage, lte(productUsage.day, Math.floor(nowMs / dayMs) - daysKept.day), maxRows),
  ]);
}

/** A few also go with every login and exchange of a token, so that a table stays small between the scheduled runs. */
export function purge(table: (typeof expiring)[number], nowMs: number, maxRows = 10): SQL {
  return deleteSome(table, lte(table.expiresAt, nowMs), maxRows);
}

function deleteSome(table: SQLiteTable, isOver: SQL, maxRows: number): SQL {
  return sql`delete from ${table} where rowid in (select rowid from ${table} where ${isOver} limit ${maxRows})`;
}
