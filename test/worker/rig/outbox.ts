// The outbox of credentials for brokers without a login hook: operations on two devices, and deliveries of due entries.
// Asserts nothing.
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { deliverOutbox, provisionAtBroker, type BrokerOperation } from '../../../src/services/broker/provisioning.ts';
import { createContext, type ServiceContext } from '../../../src/context.ts';

export const device = { productKey: 'acme', deviceId: 'dev_01abcdef' };
export const other = { productKey: 'acme', deviceId: 'dev_01abcdeg' };
export const contextOf = (of: Env): ServiceContext => createContext(of, readConfig(of));

let lastRequestAtMs = 0;
/** Requests begin in the order of the calls. */
export const provision = (of: Env, operation: BrokerOperation, to = device): Promise<void> =>
  provisionAtBroker(contextOf(of), to, operation, ++lastRequestAtMs);

/** Before each test: entries of another test would be delivered as well. */
export async function emptyOutbox(): Promise<void> {
  await env.DB.prepare('DELETE FROM broker_outbox').run();
}

/** Ends the wait before the next attempt. With a moved clock, a bridge would count as inactive. */
export async function makeDue(): Promise<void> {
  await env.DB.prepare('UPDATE broker_outbox SET next_attempt_at = 0, claimed_until = 0').run();
}

/** Delivers what is not delivered yet, as if the wait were over. */
export async function deliverWaiting(of: Env): Promise<void> {
  await makeDue();
  await deliverOutbox(contextOf(of));
}

/** Returns when a delivery that is under way is over, too: only the rows tell. */
export async function untilDelivered(): Promise<void> {
  const waiting = env.DB.prepare('SELECT 1 FROM broker_outbox WHERE delivered_at IS NULL');
  await vi.waitUntil(async () => (await waiting.first()) === null);
}

/** What is stored of passwords, null where nothing is: no answer shows it. */
export async function sealedPasswords(): Promise<(string | null)[]> {
  const { results } = await env.DB.prepare('SELECT sealed_password AS sealed FROM broker_outbox').all<{
    sealed: string | null;
  }>();
  return results.map(({ sealed }) => sealed);
}
