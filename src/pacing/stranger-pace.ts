// How fast an isolate refuses, over HTTP and over MQTT at the edge, and opens WebSockets: beyond a burst each answer is held
// back, because a client that is answered at once asks again at once. Memory only, by isolate. Decides no refusal.
import { finishInBackground } from '../background.ts';
import type { Config } from '../config.ts';
import { fullBucket, takeInAdvance, type Bucket, type Rate } from '../domain/token-bucket.ts';

let held = 0;
const refusals = new WeakMap<Config, Bucket>();
const openings = new WeakMap<Config, Bucket>();

/** To be awaited before a refusal is answered, and nothing else: no limit by address holds who has many addresses. */
export function awaitRefusalTurn(config: Config): Promise<void> {
  const { refusalBurst: burst, refusalsPerSecond: perSecond } = config.limits;
  return awaitTurn(config, refusals, { burst, perSecond });
}

/** To be awaited before a WebSocket is opened, whose client has shown nothing yet. */
export function awaitOpeningTurn(config: Config): Promise<void> {
  const { openingBurst: burst, openingsPerSecond: perSecond } = config.limits;
  return awaitTurn(config, openings, { burst, perSecond });
}

/** Not where rate limits are relaxed, nor where many are held back already. */
export async function holdBack({ limits, rateLimits }: Config, ms: number): Promise<void> {
  if (rateLimits === 'relaxed' || ms <= 0 || held >= limits.delayedRefusals) return;
  held += 1;
  // To its end, also when the client leaves: otherwise it would be counted for ever.
  await finishInBackground(scheduler.wait(ms).finally(() => (held -= 1)));
}

async function awaitTurn(config: Config, buckets: WeakMap<Config, Bucket>, rate: Rate): Promise<void> {
  const maxWaitMs = config.limits.refusalDelayMs;
  const nowMs = Date.now();
  const bucket = buckets.get(config) ?? fullBucket(rate, nowMs);
  buckets.set(config, bucket);
  await holdBack(config, takeInAdvance(bucket, rate, maxWaitMs, nowMs) ?? maxWaitMs);
}
