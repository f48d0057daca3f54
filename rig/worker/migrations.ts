// Brings the local D1 to the newest tables, keeping the same journal as `wrangler d1 migrations apply`, so that either
// may run after the other. A Worker of its own does it: Miniflare's access to D1 would block this process, and the command
// takes several seconds at every start. Its address is on loopback and its only ability is to apply what it was built with.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { V4WorkerOptions } from 'miniflare';
import { unstable_splitSqlQuery as splitSqlQuery } from 'wrangler';

export const migratorName = 'latchwork-migrator';

const script = `
const journal = \`CREATE TABLE IF NOT EXISTS d1_migrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)\`;

export default {
  async fetch(request, { DB, MIGRATIONS }) {
    if (request.method !== 'POST') return new Response(null, { status: 204 });
    try {
      await DB.prepare(journal).run();
      const { results } = await DB.prepare('SELECT name FROM d1_migrations').all();
      const applied = new Set(results.map((row) => row.name));
      const unknown = [...applied].filter((name) => !MIGRATIONS.some((migration) => migration.name === name));
      if (unknown.length > 0) {
        const text = 'another version of Latchwork made them (' + unknown[0] + '); npm run reset deletes the local state';
        return new Response(text, { status: 409 });
      }
      for (const { name, statements } of MIGRATIONS) {
        if (applied.has(name)) continue;
        const entry = DB.prepare('INSERT INTO d1_migrations (name) VALUES (?)').bind(name);
        // One batch is one transaction: a migration that fails leaves neither half a change nor a journal entry.
        await DB.batch([...statements.map((sql) => DB.prepare(sql)), entry]);
      }
      return new Response(null, { status: 204 });
    } catch (error) {
      return new Response(String(error), { status: 500 });
    }
  },
};`;

export function createMigrator(migrationsDir: string, d1Databases: V4WorkerOptions['d1Databases']): V4WorkerOptions {
  const files = readdirSync(migrationsDir).filter((name) => name.endsWith('.sql'));
  const migrations = files.sort().map((name) => ({
    name,
    statements: splitSqlQuery(readFileSync(join(migrationsDir, name), 'utf8')),
  }));
  return {
    name: migratorName,
    modules: true,
    script,
    ...(d1Databases !== undefined && { d1Databases }),
    bindings: { MIGRATIONS: migrations },
    unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }],
  };
}

/** @throws Error with what D1 refused */
export async function applyMigrations(migratorUrl: URL): Promise<void> {
  const response = await fetch(migratorUrl, { method: 'POST' });
  if (!response.ok) throw new Error(`The tables cannot be brought up to date: ${await response.text()}`);
}
