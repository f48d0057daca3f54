// Brings the local D1 to the newest tables, keeping the same journal as `wrangler d1 migrations apply`, so that either
// may run after the other. In process, because the command takes several seconds at every start.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { unstable_splitSqlQuery as splitSqlQuery } from 'wrangler';

type Statement = { bind: (...values: unknown[]) => Statement; all: () => Promise<{ results: unknown[] }> };
type Database = { prepare: (sql: string) => Statement; batch: (statements: Statement[]) => Promise<unknown> };

export async function applyMigrations(database: unknown, migrationsDir: string): Promise<void> {
  const db = database as Database;
  await db
    .prepare(
      `CREATE TABLE IF NOT EXISTS d1_migrations (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT UNIQUE,
        applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
      )`,
    )
    .all();
  const { results } = await db.prepare('SELECT name FROM d1_migrations').all();
  const applied = new Set((results as { name: string }[]).map((row) => row.name));
  const files = readdirSync(migrationsDir).filter((name) => name.endsWith('.sql'));
  for (const name of files.sort().filter((file) => !applied.has(file))) {
    const statements = splitSqlQuery(readFileSync(join(migrationsDir, name), 'utf8')).map((sql) => db.prepare(sql));
    // One batch is one transaction: a migration that fails leaves neither half a change nor a journal entry.
    await db.batch([...statements, db.prepare('INSERT INTO d1_migrations (name) VALUES (?)').bind(name)]);
  }
}
