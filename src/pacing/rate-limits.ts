// How fast somebody may ask: the limiters of wrangler.toml, approximate and per location, and a bucket for each user in
// the memory of an isolate. Counts nothing exactly: login attempts are counted in login-attempts.ts.
import { finishInBackground, type ServiceContext } from '../context.ts';
import type { Config } from '../config.ts';
import { rateLimited } from '../domain/refusal.ts';
import { Buckets } from '../domain/token-bucket.ts';
import { describeError, log } from '../log.ts';

type Limited = Pick<ServiceContext, 'config' | 'env'>;

export type FloodShield = Extract<keyof Env, `${string}_LIMIT`>;

// The binding does not say when it allows requests again; after a whole period of wrangler.toml it does.
const periodSeconds = (shield: FloodShield): number => (shield === 'USER_LIMIT' ? 10 : 60);

/** Counts one use of `key`. True if it is within the limit. */
export async function isWithinShield({ env, config }: Limited, shield: FloodShield, key: string): Promise<boolean> {
  if (config.rateLimits !== 'production') return true;
  try {
    return (await env[shield].limit({ key })).success;
  } catch (error) {
    // A broken limiter must not refuse every request.
    log('warn', 'rate limiter failed', { shield, ...describeError(error) });
    return true;
  }
}

/** @throws RefusedError `rate_limited` */
export async function holdToShield(context: Limited, shield: FloodShield, key: string): Promise<void> {
  if (await isWithinShield(context, shield, key)) return;
  throw rateLimited(shield, periodSeconds(shield));
}

/** `write`: writes to the one database of all users. */
type UserRequest = 'read' | 'write';

/** Requests for which one counts that costs the database or the objects more than most. */
export const costs = { search: 5, productChange: 5 } as const;

const bursts = { read: 30, write: 10 };
const maxWaitMs = 2_000;
const maxUsers = 10_000;
const bucketsByConfig = new WeakMap<Config, Record<UserRequest, Buckets>>();

/** Waits until the user may ask again; at once if rate limits are relaxed. @throws RefusedError `rate_limited` */
export async function holdToUserRate({ config }: Limited, userId: number, request: UserRequest, cost = 1) {
  if (config.rateLimits === 'relaxed') return;
  const waitMs = bucketsOf(config)[request].takeInAdvance(String(userId), maxWaitMs, Date.now(), cost);
  if (waitMs === undefined) {
    const limit = request === 'write' ? 'userWritesPerSecond' : 'userRequestsPerSecond';
    throw rateLimited(limit, maxWaitMs / 1000);
  }
  if (waitMs > 0) await finishInBackground(scheduler.wait(waitMs));
}

function bucketsOf(config: Config): Record<UserRequest, Buckets> {
  const { userRequestsPerSecond, userWritesPerSecond } = config.limits;
  const buckets = bucketsByConfig.get(config) ?? {
    read: new Buckets({ burst: bursts.read, perSecond: userRequestsPerSecond }, maxUsers),
    write: new Buckets({ burst: bursts.write, perSecond: userWritesPerSecond }, maxUsers),
  };
  bucketsByConfig.set(config, buckets);
  return buckets;
}
