// Flood shields: approximate, per location, by client address. They keep one client from drowning the others and
// count nothing exactly; the attempts at one account are counted in services/login-attempts.ts.
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { RefusedError } from '../domain/refusal.ts';
import type { AppEnv } from './app-env.ts';
import { readClientAddress } from './client-address.ts';
import { log } from '../log.ts';

const bindingByLimit = {
  register: 'REGISTER_LIMIT',
  login: 'LOGIN_LIMIT',
  refresh: 'REFRESH_LIMIT',
  activation: 'ACTIVATION_LIMIT',
  control: 'CONTROL_LIMIT',
  relay: 'RELAY_LIMIT',
} as const satisfies Record<string, keyof Env>;

// A binding does not tell when it lets in again: after one whole period of wrangler.toml it does for sure.
const periodSeconds = 60;

/** Refuses with 429 above the limit of wrangler.toml. `control` counts by user and so goes after `authenticate`. */
export function limitRate(limit: keyof typeof bindingByLimit) {
  return createMiddleware<AppEnv>(async (c, next) => {
    if (c.var.config.rateLimits === 'production') {
      const key = limit === 'control' ? `user ${c.var.caller.userId}` : readClientAddress(c);
      if (!(await isWithin(c, limit, key))) {
        throw new RefusedError({ kind: 'rate_limited', limit, retryAfterSeconds: periodSeconds });
      }
    }
    await next();
  });
}

async function isWithin(c: Context<AppEnv>, limit: keyof typeof bindingByLimit, key: string): Promise<boolean> {
  try {
    return (await c.env[bindingByLimit[limit]].limit({ key })).success;
  } catch (error) {
    // A shield that is broken must not become the outage it was meant to prevent.
    log('warn', 'rate limiter failed', { limit, requestId: c.var.requestId, error: String(error) });
    return true;
  }
}
