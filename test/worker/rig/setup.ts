// Runs before each test file inside workerd. The files of a worker share one workerd: this gives each one empty objects
// and an empty D1 with the newest tables, and takes back what a test has replaced.
import { applyD1Migrations, reset } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, vi } from 'vitest';
import { scryptParameters } from '../../../src/crypto/password.ts';

// What a password hash costs is the subject of test/unit/domain/password.test.ts; here it would be half of the time.
Object.assign(scryptParameters, { ln: 1, p: 1 });

await reset();
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
// No user has the id of a user of the file before: work in the background of that file may still reach the objects of its users.
await env.DB.prepare("insert into sqlite_sequence (name, seq) values ('users', ?)").bind(Date.now()).run();

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});
