// Counts the rows that a device's object writes, because no answer shows them. Asserts nothing.
import { runInDurableObject } from 'cloudflare:test';
import { vi } from 'vitest';
import { sessionOf } from './provision.ts';

/** Rows written so far, the alarm's included. */
export async function rowsWritten(deviceId: string): Promise<number> {
  return runInDurableObject(
    sessionOf(deviceId),
    (_, { storage }) => storage.sql.exec<{ rows: number }>('SELECT total_changes() AS rows').one().rows,
  );
}

type Activity = { presence: { isProjectionBehind: boolean; announcements: { isPublished: boolean }[] } };

/** Returns when D1 and the broker have taken what a transition meant for them, and the object has written so. */
export async function untilSettled(deviceId: string): Promise<void> {
  const read = () =>
    runInDurableObject(
      sessionOf(deviceId),
      (_, { storage }) =>
        JSON.parse(
          storage.sql.exec<{ json: string }>("SELECT json FROM slice WHERE name = 'activity'").one().json,
        ) as Activity,
    );
  const isSettled = ({ presence }: Activity) =>
    !presence.isProjectionBehind && presence.announcements.every((one) => one.isPublished);
  await vi.waitUntil(async () => isSettled(await read()));
}
