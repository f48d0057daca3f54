// What runs every minute (wrangler.toml, triggers): work left over from requests, a look at devices that show as online or are
// overdue, and the removal of expired rows and unused devices. Each job runs by itself: one that fails does not keep the others from running.
import { readConfig } from './config.ts';
import { deleteExpiredRows } from './db/expired-rows.ts';
import { noteJobsDone } from './db/measurements.ts';
import { describeError, log } from './log.ts';
import { finishDeletions } from './services/accounts/own-data.ts';
import { deliverOutbox } from './services/broker/provisioning.ts';
import { createContext, type ServiceContext } from './context.ts';
import { reconcilePresence } from './services/operations/presence-reconciliation.ts';
import { wakeOverdueDevices, deleteUnusedDevices } from './services/operations/silent-devices.ts';
import { removeLeftFirmware } from './services/products/firmware.ts';
import { propagateProductChanges } from './services/products/products.ts';

const jobs = {
  propagateProductChanges,
  reconcilePresence: (context: ServiceContext) => reconcilePresence(context),
  deliverOutbox,
  deleteUnusedDevices,
  wakeOverdueDevices,
  finishDeletions,
  removeLeftFirmware,
  deleteExpired: ({ primary }: ServiceContext) => deleteExpiredRows(primary(), Date.now()),
};

export async function runScheduledJobs(env: Env): Promise<void> {
  const context = createContext(env, readConfig(env));
  const done: string[] = [];
  const run = async (name: string, job: (context: ServiceContext) => Promise<unknown>): Promise<void> => {
    try {
      await job(context);
      done.push(name);
    } catch (error) {
      log('error', 'scheduled job failed', { name, ...describeError(error) });
    }
  };
  await Promise.all(Object.entries(jobs).map(([name, job]) => run(name, job)));
  await run('noteJobsDone', ({ primary }) => noteJobsDone(primary(), done, Date.now()));
}
