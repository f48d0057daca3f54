// What runs every minute (wrangler.toml, triggers): work that outlived the request which noted it, and rows whose time
// is over. Each job on its own: one that fails keeps none of the others from running.
import { readConfig } from './config.ts';
import { describeError, log } from './log.ts';
import { deliverOutbox } from './services/broker-provisioning.ts';
import { deleteExpired } from './services/housekeeping.ts';
import { propagateProductChanges } from './services/product-propagation.ts';

const jobs = { propagateProductChanges, deliverOutbox, deleteExpired };

export async function runScheduledJobs(env: Env): Promise<void> {
  const context = { env, config: readConfig(env) };
  const outcomes = await Promise.allSettled(Object.values(jobs).map((job) => job(context)));
  for (const [index, name] of Object.keys(jobs).entries()) {
    const outcome = outcomes[index];
    if (outcome?.status === 'rejected')
      log('error', 'scheduled job failed', { name, ...describeError(outcome.reason) });
  }
}
