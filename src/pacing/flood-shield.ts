// Rate limiters of wrangler.toml: approximate and per location, against floods. Nothing here counts exactly; login attempts
// at one account are counted in login-attempts.ts.
import type { Refusal } from '../domain/refusal.ts';
import { describeError, log } from '../log.ts';
import type { ServiceContext } from '../context.ts';

export type FloodShield = Extract<keyof Env, `${string}_LIMIT`>;

// The binding does not say when it allows requests again; after one whole period of wrangler.toml it does.
const periodSeconds = (shield: FloodShield): number => (shield === 'USER_LIMIT' ? 10 : 60);

/** Counts one use of `key`, and answers whether that is within the limit. */
export async function isWithinShield(
  { env, config }: Pick<ServiceContext, 'env' | 'config'>,
  shield: FloodShield,
  key: string,
): Promise<boolean> {
  if (config.rateLimits !== 'production') return true;
  try {
    return (await env[shield].limit({ key })).success;
  } catch (error) {
    // A broken limiter must not refuse every request.
    log('warn', 'rate limiter failed', { shield, ...describeError(error) });
    return true;
  }
}

export function refusedBy(shield: FloodShield): Extract<Refusal, { kind: 'rate_limited' }> {
  return { kind: 'rate_limited', limit: shield, retryAfterSeconds: periodSeconds(shield) };
}
