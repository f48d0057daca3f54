// Runs before each test file inside workerd: brings the file's own, empty D1 to the newest tables.
import { applyD1Migrations } from 'cloudflare:test';
import { env } from 'cloudflare:workers';

await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
