// Rate limits by client address: approximate and per location, against floods. Nothing here counts exactly; login
// attempts at one account are counted in services/login-attempts.ts.
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { RefusedError } from '../domain/refusal.ts';
import { describeError, log } from '../log.ts';
import type { AppEnv } from './app-env.ts';
import { readClientAddress } from './client-address.ts';

type LimitName = Extract<keyof Env, `${string}_LIMIT`>;

// The binding does not say when it allows requests again; after one whole period of wrangler.toml it does.
const periodSeconds = 60;

/** Refuses with 429 above the limit of wrangler.toml. `CONTROL_LIMIT` counts by user and so goes after `authenticate`. */
export function limitRate(limit: LimitName) {
  return createMiddleware<AppEnv>(async (c, next) => {
    if (c.var.context.config.rateLimits === 'production') {
      const key = limit === 'CONTROL_LIMIT' ? `user ${c.var.caller.userId}` : readClientAddress(c);
      if (!(await isWithin(c, limit, key))) {
        throw new RefusedError({ kind: 'rate_limited', limit, retryAfterSeconds: periodSeconds });
      }
    }
    await next();
  });
}

async function isWithin(c: Context<AppEnv>, limit: LimitName, key: string): Promise<boolean> {
  try {
    return (await c.env[limit].limit({ key })).success;
  } catch (error) {
    // A broken limiter must not refuse every request.
    log('warn', 'rate limiter failed', { limit, requestId: c.var.requestId, ...describeError(error) });
    return true;
  }
}
