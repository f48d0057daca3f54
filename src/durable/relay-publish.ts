// What a relay client may say in its device's name: the three topics a device publishes, as if the broker had brought
// it. Decides who may; what a message does is the device's session's to say.
import type { ErrorMessage } from '../domain/errors.ts';
import { mayUse, rightsOfDevice } from '../domain/topic-rights.ts';
import { parseTopic } from '../domain/topics.ts';
import type { RelayRequest } from '../protocol/relay.ts';
import type { RelayClient } from './relay-socket.ts';
import { deviceSession } from './stubs.ts';

type PublishRequest = Extract<RelayRequest, { action: 'publish' }>;

/** Publishes, or says why not. */
export async function publishFor(
  env: Env,
  who: RelayClient['who'],
  { topic, payload }: PublishRequest,
): Promise<{ error: ErrorMessage; detail?: string } | undefined> {
  if (who === null) return { error: 'unauthorized' };
  const target = parseTopic(topic);
  if (who.kind !== 'device' || target === undefined) return { error: 'forbidden' };
  if (!mayUse(rightsOfDevice(who), { action: 'publish', topic })) return { error: 'forbidden' };
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
  const { productKey, revocations } = who;
  const outcome = await deviceSession(env, who.deviceId).publish({ productKey, revocations }, target.action, text);
  if (!outcome.ok) return outcome;
  const taken = outcome.value;
  return taken.result === 'rejected' ? { error: 'invalid_request', detail: `payload: ${taken.reason}` } : undefined;
}
