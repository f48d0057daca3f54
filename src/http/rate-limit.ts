// Flood shields as middleware (pacing/flood-shield.ts): above the limit a request is refused with 429. Every such answer
// is held back for a moment, and so are all other refusals where there are many, and WebSockets that
// are opened (pacing/stranger-pace.ts).
import { createMiddleware } from 'hono/factory';
import type { Config } from '../config.ts';
import { RefusedError } from '../domain/refusal.ts';
import { awaitOpeningTurn, awaitRefusalTurn, holdBack } from '../pacing/stranger-pace.ts';
import { isWithinShield, refusedBy, type FloodShield } from '../pacing/flood-shield.ts';
import type { ServiceContext } from '../context.ts';
import type { AppEnv } from './app-env.ts';
import { readClientAddress } from './client-address.ts';

/** For what anybody may call; machines of ours that have shown their secret are answered at once. */
export const paceRefusals = createMiddleware<AppEnv>(async (c, next) => {
  await next();
  const { status } = c.res;
  if (status < 400 || status === 429 || status >= 500 || c.var.isOurMachine === true) return;
  await awaitRefusalTurn(c.var.context.config);
});

/** Before a WebSocket is opened: many addresses may open many and leave again. */
export const paceOpenings = createMiddleware<AppEnv>(async (c, next) => {
  await awaitOpeningTurn(c.var.context.config);
  await next();
});

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

/** Before a 429 is answered. */
export async function delayRefusal(config: Config): Promise<void> {
  await holdBack(config, config.limits.refusalDelayMs);
}
