// Flood shields as middleware (pacing/rate-limits.ts): above the limit a request is refused with 429.
import { createMiddleware } from 'hono/factory';
import { holdToShield, type FloodShield } from '../pacing/rate-limits.ts';
import type { AppEnv } from './app-env.ts';
import { readClientAddress } from './client-address.ts';

/** Counts by client address, `CONTROL_LIMIT` by user: it goes after `authenticate`. */
export function limitRate(shield: FloodShield) {
  return createMiddleware<AppEnv>(async (c, next) => {
    const key = shield === 'CONTROL_LIMIT' ? `user ${c.var.caller.userId}` : readClientAddress(c);
    await holdToShield(c.var.context, shield, key);
    await next();
  });
}
