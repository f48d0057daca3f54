// Keeps two bridges from writing into one spool folder. The lock is the operating system's, held through SQLite,
// so a killed process leaves none behind; process ids would mean nothing between containers.
import { truncateSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as wait } from 'node:timers/promises';

const retryEveryMs = 100;
const sqliteBusy = 5;
const sqliteNotADatabase = 26;

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
  const path = join(dir, 'lock.sqlite');
  try {
    return tryLockFile(path);
  } catch (error) {
    if (readSqliteCode(error) !== sqliteNotADatabase) throw error;
    // It holds no data. Emptied, not removed: another bridge may hold its lock on this very file by now.
    truncateSync(path);
    return tryLockFile(path);
  }
}

function tryLockFile(path: string): SpoolLock | null {
  const database = new DatabaseSync(path);
  try {
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    return { release: () => database.close() };
  } catch (error) {
    database.close();
    if (readSqliteCode(error) === sqliteBusy) return null;
    throw error;
  }
}

function readSqliteCode(error: unknown): number | undefined {
  return (error as { errcode?: number }).errcode;
}
