// Rate limiters for the local workerd, counted in the memory of a Worker of their own. Miniflare's keep each count in SQLite:
// every request under a limit would wait for a disk in workerd's only thread. At Cloudflare counting costs no I/O.
import type { V4WorkerOptions } from 'miniflare';

const counterName = 'latchwork-rate-limits';

// Windows begin with the clock, as Miniflare's do: who waits for a period has his whole limit again.
const script = `
import { WorkerEntrypoint } from 'cloudflare:workers';

const windows = new Map();

export class RateLimiter extends WorkerEntrypoint {
  limit({ key }) {
    const { namespace, limit, period } = this.ctx.props;
    const epoch = Math.floor(Date.now() / (period * 1000));
    let window = windows.get(namespace);
    if (window?.epoch !== epoch) windows.set(namespace, (window = { epoch, counts: new Map() }));
    const count = window.counts.get(key) ?? 0;
    if (count >= limit) return { success: false };
    window.counts.set(key, count + 1);
    return { success: true };
  }
}

export default {};`;

/** What binds them in place of Miniflare's; `others` replace single limits. */
export function bindRateLimits(
  limits: V4WorkerOptions['ratelimits'] = {},
  others: Record<string, number> = {},
): V4WorkerOptions['serviceBindings'] {
  const bindings = Object.entries(limits).map(([name, { namespace_id: namespace, simple }]) => {
    const props = { namespace, limit: others[name] ?? simple.limit, period: simple.period ?? 60 };
    return [name, { name: counterName, entrypoint: 'RateLimiter', props }];
  });
  return Object.fromEntries(bindings) as V4WorkerOptions['serviceBindings'];
}

export const rateLimitCounter: V4WorkerOptions = {
  name: counterName,
  modules: true,
  script,
  compatibilityDate: '2026-01-01',
};
