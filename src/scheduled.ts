// What runs every minute (wrangler.toml, triggers): work left over from requests, and the removal of expired rows. Each
// job runs by itself: one that fails does not keep the others from running.
import { readConfig } from './config.ts';
import { describeError, log } from './log.ts';
import { deliverOutbox } from './services/broker-provisioning.ts';
import { createContext } from './services/context.ts';
import { deleteExpired } from './services/housekeeping.ts';
import { propagateProductChanges } from './services/product-propagation.ts';

const jobs = { propagateProductChanges, deliverOutbox, deleteExpired };

export async function runScheduledJobs(env: Env): Promise<void> {
  const context = createContext(env, readConfig(env));
  await Promise.all(
    Object.entries(jobs).map(async ([name, job]) => {
      try {
        await job(context);
      } catch (error) {
        log('error', 'scheduled job failed', { name, ...describeError(error) });
      }
    }),
  );
}
