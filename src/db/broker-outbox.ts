// Queries on the outbox of wishes to the broker. Which wish is made, and how it is delivered, is the services' matter.
import { and, asc, eq, isNull, lte, sql } from 'drizzle-orm';
import type { Database } from './client.ts';
import { brokerOutbox } from './schema.ts';

export type BrokerWish = typeof brokerOutbox.$inferSelect;

/** Puts a wish in the place of an older one. What was not delivered yet of that goes with it, unless it is to remove. */
export async function putWish(
  database: Database,
  wish: Pick<BrokerWish, 'deviceId' | 'productKey' | 'wish' | 'sealedPassword' | 'endsSessions' | 'wishedAt'>,
  dueAtMs: number,
): Promise<void> {
  await database
    .insert(brokerOutbox)
    .values({ ...wish, version: 1, attempts: 0, nextAttemptAt: dueAtMs, claimedUntil: 0 })
    .onConflictDoUpdate({
      target: brokerOutbox.deviceId,
      set: {
        version: sql`${brokerOutbox.version} + 1`,
        wish: sql`excluded.wish`,
        sealedPassword: sql`case when excluded.wish = 'remove' then null
          else coalesce(excluded.sealed_password, ${brokerOutbox.sealedPassword}) end`,
        endsSessions: sql`excluded.ends_sessions or (${brokerOutbox.endsSessions} and ${brokerOutbox.deliveredAt} is null)`,
        wishedAt: sql`excluded.wished_at`,
        attempts: 0,
        nextAttemptAt: dueAtMs,
        deliveredAt: null,
      },
      setWhere: sql`excluded.wished_at >= ${brokerOutbox.wishedAt}`,
    });
}

/** Takes the wish that has waited longest and nobody is at, or that of one device. One statement, so only one gets it. */
export async function claimWish(
  database: Database,
  { nowMs, untilMs, deviceId }: { nowMs: number; untilMs: number; deviceId?: string },
): Promise<BrokerWish | undefined> {
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

/** The password is erased. A wish that came meanwhile stays due: false. */
export async function finishWish(database: Database, { deviceId, version }: BrokerWish, nowMs: number) {
  const [finished] = await database
    .update(brokerOutbox)
    .set({ deliveredAt: nowMs, sealedPassword: null, claimedUntil: 0 })
    .where(and(eq(brokerOutbox.deviceId, deviceId), eq(brokerOutbox.version, version)))
    .returning({ deviceId: brokerOutbox.deviceId });
  if (finished === undefined) await releaseWish(database, deviceId);
  return finished !== undefined;
}

/** Tries again at `nextAttemptAtMs`; a wish that came meanwhile, at once. */
export async function postponeWish(database: Database, { deviceId, version, attempts }: BrokerWish, atMs: number) {
  await database
    .update(brokerOutbox)
    .set({ attempts: attempts + 1, nextAttemptAt: atMs })
    .where(and(eq(brokerOutbox.deviceId, deviceId), eq(brokerOutbox.version, version)));
  await releaseWish(database, deviceId);
}

async function releaseWish(database: Database, deviceId: string): Promise<void> {
  await database.update(brokerOutbox).set({ claimedUntil: 0 }).where(eq(brokerOutbox.deviceId, deviceId));
}
