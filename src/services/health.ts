// Which parts of the service work at this moment. Reports; repairs nothing.
import { sql } from 'drizzle-orm';
import { openDatabase } from '../db/client.ts';
import { callBrokerLink } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

const checkTimeoutMs = 2_000;

export type PartName = 'database' | 'bridge' | 'broker';

/** The missing parts beside this Worker itself; a check that fails or takes longer than two seconds counts as a missing part. */
export async function findMissingParts({ env }: ServiceContext): Promise<PartName[]> {
  const [hasDatabase, link] = await Promise.all([
    withinTimeout(async () => {
      await openDatabase(env.DB, 'first-primary').get(sql`select 1`);
      return true;
    }),
    withinTimeout(() => callBrokerLink(env, 'health', 'repeatable', (link) => link.health())),
  ]);
  const missing: PartName[] = [];
  if (hasDatabase !== true) missing.push('database');
  if (link?.bridgeConnected !== true) missing.push('bridge');
  if (link?.brokerConnected !== true) missing.push('broker');
  return missing;
}

async function withinTimeout<T>(check: () => PromiseLike<T>): Promise<T | undefined> {
  let timer: number | null = null;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), checkTimeoutMs);
  });
  try {
    return await Promise.race([check(), timeout]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
