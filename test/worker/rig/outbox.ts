// The outbox of credentials for mosquitto: operations on two devices, deliveries of due entries, and mosquitto's answers.
import { env } from 'cloudflare:workers';
import { expect, vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { deliverOutbox, provisionAtBroker, type BrokerOperation } from '../../../src/services/broker/provisioning.ts';
import { createContext, type ServiceContext } from '../../../src/context.ts';
import type { TestSocket } from './clients/socket.ts';

export const withMosquitto = { ...env, BROKER_PROVISIONING: 'mosquitto' } as unknown as Env;

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

type Command = { command: string } & Record<string, unknown>;

/**
 * Answers a list of commands as mosquitto would, with `errors` by command, or with another outcome.
 * @returns the commands, without what their replies are recognised by
 */
export function answerCommands(
  bridge: TestSocket,
  frame: unknown,
  outcome?: object,
  errors: Record<string, string> = {},
) {
  const { id, topic, payload, reply } = frame as Record<'id' | 'topic' | 'payload', string> & {
    reply: Record<string, string>;
  };
  expect(topic).toBe('$CONTROL/dynamic-security/v1');
  expect(reply['topic']).toBe('$CONTROL/dynamic-security/v1/response');
  const { commands } = JSON.parse(payload) as { commands: Command[] };
  const responses = commands.map(({ command, correlationData }) => {
    const error = errors[command];
    return { command, ...(error !== undefined && { error }), correlationData };
  });
  const published = { type: 'published', hasSubscribers: null, reply: JSON.stringify({ responses }) };
  bridge.send({ ...(outcome ?? published), id });
  return commands.map(({ correlationData, ...command }) => {
    expect(correlationData).toBe(reply['containing']);
    return command;
  });
}
