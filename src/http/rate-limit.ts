// Flood shields as middleware (services/flood-shield.ts): above the limit a request is refused with 429. Every such answer
// is held back for a moment, because a client that is refused at once asks again at once.
import { createMiddleware } from 'hono/factory';
import { finishInBackground } from '../background.ts';
import { RefusedError } from '../domain/refusal.ts';
import { isWithinShield, refusedBy, type FloodShield } from '../services/flood-shield.ts';
import type { ServiceContext } from '../services/context.ts';
import type { AppEnv } from './app-env.ts';
import { readClientAddress } from './client-address.ts';

let delayedRefusals = 0;

/** Counts by client address, `CONTROL_LIMIT` by user: it goes after `authenticate`. */
export function limitRate(shield: FloodShield) {
  return createMiddleware<AppEnv>(async (c, next) => {
    const key = shield === 'CONTROL_LIMIT' ? `user ${c.var.caller.userId}` : readClientAddress(c);
    await holdToShield(c.var.context, shield, key);
    await next();
  });
}

/** @throws RefusedError `rate_limited` */
export async function holdToShield(context: ServiceContext, shield: FloodShield, key: string): Promise<void> {
  if (await isWithinShield(context, shield, key)) return;
  throw new RefusedError(refusedBy(shield));
}

/** Before a 429 is answered; only where rate limits count. */
export async function delayRefusal({ rateLimits, limits }: ServiceContext['config']): Promise<void> {
  const { refusalDelayMs, delayedRefusals: max } = limits;
  if (rateLimits === 'relaxed' || delayedRefusals >= max) return;
  delayedRefusals += 1;
  // To its end, also when the client leaves: otherwise it would be counted for ever.
  await finishInBackground(scheduler.wait(refusalDelayMs).finally(() => (delayedRefusals -= 1)));
}
