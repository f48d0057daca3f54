// How fast one user is served by an isolate: a burst, then so many requests a second. What is faster waits a moment, and is
// refused where the wait would be long, so that nobody who is signed in is in front of others for longer than his burst.
import { finishInBackground } from '../background.ts';
import { Buckets } from '../domain/token-bucket.ts';
import type { Config } from '../config.ts';
import type { ServiceContext } from './context.ts';
import { RefusedError } from '../domain/refusal.ts';

const maxUsers = 10_000;
const bucketsByConfig = new WeakMap<Config, Buckets>();

/** At once where rate limits are relaxed. @throws RefusedError `rate_limited` */
export async function waitForPace({ config }: Pick<ServiceContext, 'config'>, userId: number): Promise<void> {
  if (config.rateLimits === 'relaxed') return;
  const waitMs = bucketsOf(config).takeInAdvance(String(userId), config.limits.userRequestWaitMs, Date.now());
  if (waitMs === undefined) {
    const retryAfterSeconds = Math.ceil(config.limits.userRequestWaitMs / 1000);
    throw new RefusedError({ kind: 'rate_limited', limit: 'userRequestsPerSecond', retryAfterSeconds });
  }
  if (waitMs > 0) await finishInBackground(scheduler.wait(waitMs));
}

function bucketsOf(config: Config): Buckets {
  const { userRequestBurst: burst, userRequestsPerSecond: perSecond } = config.limits;
  const buckets = bucketsByConfig.get(config) ?? new Buckets({ burst, perSecond }, maxUsers);
  bucketsByConfig.set(config, buckets);
  return buckets;
}
