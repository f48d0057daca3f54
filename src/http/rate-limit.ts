// Flood shields as middleware (services/flood-shield.ts): above the limit a request is refused with 429. Every such answer
// is held back for a moment, and so are all other refusals where there are many: a client that is refused at once asks again
// at once.
import { createMiddleware } from 'hono/factory';
import { finishInBackground } from '../background.ts';
import type { Config } from '../config.ts';
import { RefusedError } from '../domain/refusal.ts';
import { fullBucket, takeInAdvance, type Bucket } from '../domain/token-bucket.ts';
import { isWithinShield, refusedBy, type FloodShield } from '../services/flood-shield.ts';
import type { ServiceContext } from '../services/context.ts';
import type { AppEnv } from './app-env.ts';
import { readClientAddress } from './client-address.ts';

let delayedRefusals = 0;
/** Of an isolate. */
const refusalsByConfig = new WeakMap<Config, Bucket>();

/** For what anybody may call: with many addresses, no limit by address holds those who are refused for what they send. */
export const paceRefusals = createMiddleware<AppEnv>(async (c, next) => {
  await next();
  const { config } = c.var.context;
  const { status } = c.res;
  if (config.rateLimits === 'relaxed' || status < 400 || status === 429 || status >= 500) return;
  await delay(config, waitOfRefusal(config, Date.now()));
});

function waitOfRefusal(config: Config, nowMs: number): number {
  const { refusalBurst: burst, refusalsPerSecond: perSecond, refusalDelayMs: maxWaitMs } = config.limits;
  const bucket = refusalsByConfig.get(config) ?? fullBucket({ burst, perSecond }, nowMs);
  refusalsByConfig.set(config, bucket);
  return takeInAdvance(bucket, { burst, perSecond }, maxWaitMs, nowMs) ?? maxWaitMs;
}

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
export async function delayRefusal(config: Config): Promise<void> {
  if (config.rateLimits === 'production') await delay(config, config.limits.refusalDelayMs);
}

async function delay({ limits }: Config, ms: number): Promise<void> {
  if (ms <= 0 || delayedRefusals >= limits.delayedRefusals) return;
  delayedRefusals += 1;
  // To its end, also when the client leaves: otherwise it would be counted for ever.
  await finishInBackground(scheduler.wait(ms).finally(() => (delayedRefusals -= 1)));
}
