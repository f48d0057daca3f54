// Queries on the broker outbox. What is put into it and how it is delivered is decided in services/broker/provisioning.ts.
import { and, asc, eq, isNull, lte, sql } from 'drizzle-orm';
import type { Database } from '../client.ts';
import { brokerOutbox } from '../schema/devices.ts';

export type OutboxEntry = typeof brokerOutbox.$inferSelect;

/** A later request stays. An undelivered password and `endsSessions` carry over, except to a `delete`. */
export async function putOutboxEntry(
  database: Database,
  entry: Omit<OutboxEntry, 'version' | 'attempts' | 'claimedUntil' | 'deliveredAt'>,
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
  nowMs: number,
  untilMs: number,
  deviceId: string | undefined,
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
  return database
    .update(brokerOutbox)
    .set({ claimedUntil: untilMs })
    .where(eq(brokerOutbox.deviceId, sql`(${next})`))
    .returning()
    .get();
}

/** Ends the claim and notes what the delivery changed. False if a newer entry replaced this one: that entry stays due. */
export async function releaseOutboxEntry(
  database: Database,
  { deviceId, version }: OutboxEntry,
  change: Partial<Pick<OutboxEntry, 'deliveredAt' | 'sealedPassword' | 'attempts' | 'nextAttemptAt'>>,
): Promise<boolean> {
  const isThisDevice = eq(brokerOutbox.deviceId, deviceId);
  const [changed] = await database.batch([
    database
      .update(brokerOutbox)
      .set(change)
      .where(and(isThisDevice, eq(brokerOutbox.version, version))),
    database.update(brokerOutbox).set({ claimedUntil: 0 }).where(isThisDevice),
  ]);
  return changed.meta.changes === 1;
}

export async function countOutbox(database: Database, nowMs: number) {
  const row = await database
    .select({ waiting: sql<number>`count(*)`, oldest: sql<number | null>`min(${brokerOutbox.requestedAt})` })
    .from(brokerOutbox)
    .where(isNull(brokerOutbox.deliveredAt))
    .get();
  const oldest = row?.oldest ?? nowMs;
  return { waiting: row?.waiting ?? 0, oldestSeconds: Math.max(0, Math.round((nowMs - oldest) / 1000)) };
}
