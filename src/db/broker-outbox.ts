// Queries on the broker outbox. What is put into it and how it is delivered is decided in services/broker-provisioning.ts.
import { and, asc, eq, isNull, lte, sql } from 'drizzle-orm';
import type { Database } from './client.ts';
import { brokerOutbox } from './schema.ts';

export type OutboxEntry = typeof brokerOutbox.$inferSelect;

/**
 * Replaces the device's entry, unless that was requested later. A password and an `endsSessions` that were not delivered
 * yet carry over, except to a `delete`.
 */
export async function putOutboxEntry(
  database: Database,
  entry: Pick<
    OutboxEntry,
    'deviceId' | 'productKey' | 'operation' | 'sealedPassword' | 'endsSessions' | 'requestedAt' | 'nextAttemptAt'
  >,
): Promise<void> {
  await database
    .insert(brokerOutbox)
    .values({ ...entry, version: 1, attempts: 0, claimedUntil: 0 })
    .onConflictDoUpdate({
      target: brokerOutbox.deviceId,
      set: {
        version: sql`${brokerOutbox.version} + 1`,
        operation: sql`excluded.operation`,
        sealedPassword: sql`case when excluded.operation = 'delete' then null
          else coalesce(excluded.sealed_password, ${brokerOutbox.sealedPassword}) end`,
        endsSessions: sql`excluded.ends_sessions or (${brokerOutbox.endsSessions} and ${brokerOutbox.deliveredAt} is null)`,
        requestedAt: sql`excluded.requested_at`,
        attempts: 0,
        nextAttemptAt: sql`excluded.next_attempt_at`,
        deliveredAt: null,
      },
      setWhere: sql`excluded.requested_at >= ${brokerOutbox.requestedAt}`,
    });
}

/** Claims the due entry that has waited longest, or that of one device. One statement, so that only one caller gets it. */
export async function claimOutboxEntry(
  database: Database,
  { nowMs, untilMs, deviceId }: { nowMs: number; untilMs: number; deviceId?: string },
): Promise<OutboxEntry | undefined> {
  const isDue = and(
    isNull(brokerOutbox.deliveredAt),
    lte(brokerOutbox.nextAttemptAt, nowMs),
    lte(brokerOutbox.claimedUntil, nowMs),
    deviceId === undefined ? undefined : eq(brokerOutbox.deviceId, deviceId),
  );
  const next = database
    .select({ deviceId: brokerOutbox.deviceId })
    .from(brokerOutbox)
    .where(isDue)
    .orderBy(asc(brokerOutbox.nextAttemptAt))
    .limit(1);
  const [claimed] = await database
    .update(brokerOutbox)
    .set({ claimedUntil: untilMs })
    .where(eq(brokerOutbox.deviceId, sql`(${next})`))
    .returning();
  return claimed;
}

/** Marks it delivered and erases the password. False where a newer entry replaced it meanwhile: that one stays due. */
export async function completeOutboxEntry(
  database: Database,
  { deviceId, version }: OutboxEntry,
  nowMs: number,
): Promise<boolean> {
  const completed = await database
    .update(brokerOutbox)
    .set({ deliveredAt: nowMs, sealedPassword: null, claimedUntil: 0 })
    .where(and(eq(brokerOutbox.deviceId, deviceId), eq(brokerOutbox.version, version)));
  if (completed.meta.changes === 0) await releaseClaim(database, deviceId);
  return completed.meta.changes === 1;
}

/** Schedules the next attempt; an entry that replaced this one meanwhile stays due at its own time. */
export async function postponeOutboxEntry(
  database: Database,
  { deviceId, version, attempts }: OutboxEntry,
  nextAttemptAt: number,
): Promise<void> {
  await database
    .update(brokerOutbox)
    .set({ attempts: attempts + 1, nextAttemptAt })
    .where(and(eq(brokerOutbox.deviceId, deviceId), eq(brokerOutbox.version, version)));
  await releaseClaim(database, deviceId);
}

async function releaseClaim(database: Database, deviceId: string): Promise<void> {
  await database.update(brokerOutbox).set({ claimedUntil: 0 }).where(eq(brokerOutbox.deviceId, deviceId));
}
