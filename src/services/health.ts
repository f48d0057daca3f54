// Which parts of the service work. Reports; repairs nothing. Anybody may ask, so that an isolate checks at most every
// `healthCacheMs`, and one request at a time.
import { sql } from 'drizzle-orm';
import { finishInBackground } from '../background.ts';
import { callBrokerLink } from '../durable/stubs.ts';
import { describeError, log } from '../log.ts';
import type { ServiceContext } from './context.ts';

const checkTimeoutMs = 2_000;

type PartName = 'database' | 'bridge' | 'broker';

/** Missing parts are looked for again sooner, so that a start or a recovery shows at once. */
const missingCacheMs = 500;
const pollMs = 20;

type Health = { missing: string[]; checkedAtMs: number; isChecking: boolean };
const healthByEnv = new WeakMap<Env, Health>();

/**
 * The missing parts beside this Worker itself, in words; a check that fails or takes longer than two seconds counts as
 * missing. An uplink that stands still is one, because reports are acknowledged and do not arrive.
 */
export async function findMissingParts(context: ServiceContext): Promise<string[]> {
  const { env, config } = context;
  const health = healthByEnv.get(env) ?? { missing: [], checkedAtMs: -Infinity, isChecking: false };
  healthByEnv.set(env, health);
  const cacheMs = Math.min(config.limits.healthCacheMs, health.missing.length > 0 ? missingCacheMs : Infinity);
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
    health.missing = await checkParts(context);
    health.checkedAtMs = Date.now();
  } finally {
    health.isChecking = false;
  }
}

async function checkParts(context: ServiceContext): Promise<string[]> {
  const [row, brokerSide] = await Promise.all([
    check('database', () => context.primary().get(sql`select 1`)),
    context.config.hasBroker ? checkBrokerSide(context) : [],
  ]);
  return row === undefined ? ['database', ...brokerSide] : brokerSide;
}

async function checkBrokerSide({ env }: ServiceContext): Promise<string[]> {
  const link = await check('bridge', () => callBrokerLink(env, 'health', 'idempotent', (link) => link.health()));
  const missing: string[] = [];
  if (link?.bridgeConnected !== true) missing.push('bridge');
  if (link?.brokerConnected !== true) missing.push('broker');
  const stall = link?.stall ?? null;
  if (stall !== null) missing.push(`uplink (${stall.reason} for ${stall.seconds} s)`);
  return missing;
}

/** undefined where the answer fails or does not come in time. */
async function check<T>(part: PartName, ask: () => PromiseLike<T>): Promise<T | undefined> {
  const late = new Promise<undefined>((resolve) => {
    AbortSignal.timeout(checkTimeoutMs).addEventListener('abort', () => resolve(undefined));
  });
  try {
    const answer = await Promise.race([ask(), late]);
    if (answer === undefined) log('warn', 'health check failed', { part, error: 'no answer in time' });
    return answer;
  } catch (error) {
    log('warn', 'health check failed', { part, ...describeError(error) });
    return undefined;
  }
}
