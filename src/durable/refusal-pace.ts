// How fast an isolate refuses, over HTTP and over MQTT at the edge: beyond a burst each answer is held back, because a client
// that is refused at once asks again at once. Memory only, by isolate. Decides no refusal.
import { finishInBackground } from '../background.ts';
import type { Config } from '../config.ts';
import { fullBucket, takeInAdvance, type Bucket } from '../domain/token-bucket.ts';

let held = 0;
const bucketByConfig = new WeakMap<Config, Bucket>();

/** To be awaited before a refusal is answered, and nothing else: no limit by address holds who has many addresses. */
export async function awaitRefusalTurn(config: Config): Promise<void> {
  const { refusalBurst: burst, refusalsPerSecond: perSecond, refusalDelayMs: maxWaitMs } = config.limits;
  const nowMs = Date.now();
  const bucket = bucketByConfig.get(config) ?? fullBucket({ burst, perSecond }, nowMs);
  bucketByConfig.set(config, bucket);
  await holdBack(config, takeInAdvance(bucket, { burst, perSecond }, maxWaitMs, nowMs) ?? maxWaitMs);
}

/** Not where rate limits are relaxed, nor where many are held back already. */
export async function holdBack({ limits, rateLimits }: Config, ms: number): Promise<void> {
  if (rateLimits === 'relaxed' || ms <= 0 || held >= limits.delayedRefusals) return;
  held += 1;
  // To its end, also when the client leaves: otherwise it would be counted for ever.
  await finishInBackground(scheduler.wait(ms).finally(() => (held -= 1)));
}
