// Deletes expired rows, table by table, each by the index on its expiry.
import { lt } from 'drizzle-orm';
import type { Database } from './client.ts';
import {
  brokerOutbox,
  claimTokens,
  deviceInvitations,
  deviceTransfers,
  loginAttempts,
  loginDevices,
  passwordResets,
  refreshTokens,
} from './schema.ts';

/** Delivered entries stay that long, so that a request that began earlier and ends later is still known as outdated. */
const deliveredEntryLifeMs = 60 * 60_000;

export async function deleteExpiredRows(database: Database, nowMs: number): Promise<void> {
  await database.batch([
    database.delete(refreshTokens).where(lt(refreshTokens.expiresAt, nowMs)),
    database.delete(loginAttempts).where(lt(loginAttempts.expiresAt, nowMs)),
    database.delete(loginDevices).where(lt(loginDevices.expiresAt, nowMs)),
    database.delete(deviceInvitations).where(lt(deviceInvitations.expiresAt, nowMs)),
    database.delete(passwordResets).where(lt(passwordResets.expiresAt, nowMs)),
    database.delete(claimTokens).where(lt(claimTokens.expiresAt, nowMs)),
    database.delete(deviceTransfers).where(lt(deviceTransfers.expiresAt, nowMs)),
    database.delete(brokerOutbox).where(lt(brokerOutbox.deliveredAt, nowMs - deliveredEntryLifeMs)),
  ]);
}
