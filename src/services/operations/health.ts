// Which parts of the service work. Reports; repairs nothing. Anybody may ask: an isolate checks at most every three seconds, for
// one request at a time.
import { sql } from 'drizzle-orm';
import journal from '../../../migrations/meta/_journal.json';
import { finishInBackground, type ServiceContext } from '../../context.ts';
import { callBrokerLink } from '../../objects/calls/stubs.ts';
import { within } from '../../objects/calls/within.ts';
import { describeError, log } from '../../log.ts';

const checkTimeoutMs = 2_000;

const healthyCacheMs = 3_000;
/** Missing parts are looked for again sooner, so that a start or a recovery shows at once. */
const missingCacheMs = 500;
const pollMs = 20;

type Health = { missing: string[]; checkedAtMs: number; isChecking: boolean };
const healthByEnv = new WeakMap<Env, Health>();

/** The missing parts beside this Worker. A check that fails or takes over two seconds counts as missing. */
export async function findMissingParts(context: ServiceContext): Promise<string[]> {
  const { env } = context;
  const health = healthByEnv.get(env) ?? { missing: [], checkedAtMs: -Infinity, isChecking: false };
  healthByEnv.set(env, health);
  const cacheMs = health.missing.length > 0 ? missingCacheMs : healthyCacheMs;
  const isChecking = () => health.isChecking;
  const isYoungerThan = (ageMs: number) => Date.now() - health.checkedAtMs < ageMs;
  if (isYoungerThan(cacheMs)) return health.missing;
  if (!isChecking()) {
    health.isChecking = true;
    await finishInBackground(renew(context, health));
  } else if (!isYoungerThan(cacheMs + checkTimeoutMs)) {
    // By its own timer: a promise of another request cannot be awaited.
    while (isChecking()) await scheduler.wait(pollMs);
  }
  return health.missing;
}

async function renew(context: ServiceContext, health: Health): Promise<void> {
  try {
    const brokerSide = context.config.hasBroker ? checkBrokerSide(context) : [];
    health.missing = (await Promise.all([checkDatabase(context), brokerSide])).flat();
    health.checkedAtMs = Date.now();
  } finally {
    health.isChecking = false;
  }
}

async function checkDatabase(context: ServiceContext): Promise<string[]> {
  const migration = await check('database', async () => (await findMissingMigration(context)) ?? '');
  if (migration === undefined) return ['database'];
  if (migration === '') return [];
  log('error', 'a migration is not applied', { migration });
  return [`database (migration ${migration} is not applied)`];
}

async function checkBrokerSide({ env }: ServiceContext): Promise<string[]> {
  const link = await check('bridge', () => callBrokerLink(env, 'idempotent').health());
  const missing: string[] = [];
  if (link?.bridgeConnected !== true) missing.push('bridge');
  if (link?.brokerConnected !== true) missing.push('broker');
  const stall = link?.stall ?? null;
  if (stall !== null) missing.push(`uplink (${stall.reason} for ${stall.seconds} s)`);
  return missing;
}

/** The first one. Newer ones than this Worker knows harm nothing: it may be the version before, rolled back to. */
export async function findMissingMigration(context: ServiceContext): Promise<string | undefined> {
  const applied = await context
    .primary()
    .all<{ name: string }>(sql`select name from d1_migrations`)
    .catch((error: unknown) => {
      if (/no such table/.test(String(describeError(error)['error']))) return [];
      throw error;
    });
  const names = new Set(applied.map(({ name }) => name.replace(/\.sql$/, '')));
  return journal.entries.find(({ tag }) => !names.has(tag))?.tag;
}

async function check<T>(part: string, ask: () => Promise<T>): Promise<T | undefined> {
  try {
    const answer = await within(checkTimeoutMs, ask());
    if (answer === undefined) log('warn', 'health check failed', { part, error: 'no answer in time' });
    return answer;
  } catch (error) {
    log('warn', 'health check failed', { part, ...describeError(error) });
    return undefined;
  }
}
