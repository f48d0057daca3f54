// Which parts of the service work at this moment. Reports; repairs nothing.
import { sql } from 'drizzle-orm';
import { callBrokerLink } from '../durable/stubs.ts';
import { describeError, log } from '../log.ts';
import type { ServiceContext } from './context.ts';

const checkTimeoutMs = 2_000;

export type PartName = 'database' | 'bridge' | 'broker';

/** The missing parts beside this Worker itself; a check that fails or takes longer than two seconds counts as missing. */
export async function findMissingParts(context: ServiceContext): Promise<PartName[]> {
  const [row, link] = await Promise.all([
    check('database', () => context.primary().get(sql`select 1`)),
    check('bridge', () => callBrokerLink(context.env, 'health', 'idempotent', (link) => link.health())),
  ]);
  const missing: PartName[] = [];
  if (row === undefined) missing.push('database');
  if (link?.bridgeConnected !== true) missing.push('bridge');
  if (link?.brokerConnected !== true) missing.push('broker');
  return missing;
}

/** undefined where the answer fails or does not come in time. */
async function check<T>(part: PartName, ask: () => PromiseLike<T>): Promise<T | undefined> {
  const late = new Promise<undefined>((resolve) => {
    AbortSignal.timeout(checkTimeoutMs).addEventListener('abort', () => resolve(undefined));
  });
  try {
    const answer = await Promise.race([ask(), late]);
    if (answer === undefined) log('warn', 'health check failed', { part, error: 'no answer in time' });
    return answer;
  } catch (error) {
    log('warn', 'health check failed', { part, ...describeError(error) });
    return undefined;
  }
}
