// Keeps two bridges from writing into one spool folder. The lock is the operating system's, held through SQLite,
// so a killed process leaves none behind; process ids would mean nothing between containers.
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as wait } from 'node:timers/promises';

const retryEveryMs = 100;

export type SpoolLock = { release(): void };

/** Waits for a leaving bridge up to `waitMs`; answers null when the folder is still taken then. */
export async function lockSpool(dir: string, waitMs: number): Promise<SpoolLock | null> {
  const giveUpAtMs = Date.now() + waitMs;
  for (;;) {
    const lock = tryLock(dir);
    if (lock !== null || Date.now() >= giveUpAtMs) return lock;
    await wait(retryEveryMs);
  }
}

function tryLock(dir: string): SpoolLock | null {
  const database = new DatabaseSync(join(dir, 'lock.sqlite'));
  try {
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    return { release: () => database.close() };
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === 5) return null;
    throw error;
  }
}
