// How fast one user is served by an isolate: a burst, then so many requests a second, and fewer of those that write to the
// database. What is faster waits a moment, and is refused where the wait would be long, so that nobody who is signed in is in
// front of others for longer than his burst.
import { finishInBackground } from '../background.ts';
import { Buckets } from '../domain/token-bucket.ts';
import type { Config } from '../config.ts';
import type { Limits } from '../limits.ts';
import type { ServiceContext } from '../context.ts';
import { RefusedError } from '../domain/refusal.ts';

const maxUsers = 10_000;
/** What each kind of request counts for. */
type Pace = 'requests' | 'writes';
const bucketsByConfig = new WeakMap<Config, Record<Pace, Buckets>>();

/** At once where rate limits are relaxed. @throws RefusedError `rate_limited` */
export async function waitForPace(
  { config }: Pick<ServiceContext, 'config'>,
  userId: number,
  pace: Pace,
): Promise<void> {
  if (config.rateLimits === 'relaxed') return;
  const { userRequestWaitMs: maxWaitMs } = config.limits;
  const waitMs = bucketsOf(config)[pace].takeInAdvance(String(userId), maxWaitMs, Date.now());
  if (waitMs === undefined) {
    const limit = pace === 'writes' ? 'userWritesPerSecond' : 'userRequestsPerSecond';
    throw new RefusedError({ kind: 'rate_limited', limit, retryAfterSeconds: Math.ceil(maxWaitMs / 1000) });
  }
  if (waitMs > 0) await finishInBackground(scheduler.wait(waitMs));
}

function bucketsOf(config: Config): Record<Pace, Buckets> {
  const buckets = bucketsByConfig.get(config) ?? createBuckets(config.limits);
  bucketsByConfig.set(config, buckets);
  return buckets;
}

function createBuckets(limits: Limits): Record<Pace, Buckets> {
  const requests = { burst: limits.userRequestBurst, perSecond: limits.userRequestsPerSecond };
  const writes = { burst: limits.userWriteBurst, perSecond: limits.userWritesPerSecond };
  return { requests: new Buckets(requests, maxUsers), writes: new Buckets(writes, maxUsers) };
}
