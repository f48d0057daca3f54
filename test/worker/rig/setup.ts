// Runs before each test file inside workerd. The files of a worker share one workerd: this gives each one empty objects
// and an empty D1 with the newest tables, and takes back what a file has replaced.
import { applyD1Migrations, reset } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterAll, vi } from 'vitest';
import { scryptParameters } from '../../../src/crypto/password.ts';
import { forgetRevokedUsers } from '../../../src/objects/calls/revoked-users.ts';

// What a password hash costs is the subject of test/unit/domain/password.test.ts; here it would be half of the time.
Object.assign(scryptParameters, { ln: 1, p: 1 });

await reset();
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
// The file before may have disabled users whose ids this file gives again.
forgetRevokedUsers();

afterAll(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});
