// What a relay client may say in its device's name: the three topics a device publishes, as if the broker had brought
// it. Decides who may; what a message does is the device's session's to say.
import type { Refusal } from '../domain/refusal.ts';
import { mayUse, rightsOfDevice } from '../domain/topic-rights.ts';
import { parseTopic } from '../domain/topics.ts';
import type { RelayRequest } from '../protocol/relay.ts';
import type { RelayClient } from './relay-socket.ts';
import { callDevice } from './stubs.ts';

type PublishRequest = Extract<RelayRequest, { action: 'publish' }>;

/** Publishes, or says why not. */
export async function publishFor(
  env: Env,
  who: RelayClient['who'],
  { topic, payload }: PublishRequest,
): Promise<Refusal | undefined> {
  if (who === null) return { kind: 'credential_refused', credential: 'session', problem: 'missing' };
  const target = parseTopic(topic);
  const forbidden = { kind: 'topic_forbidden', action: 'publish', topic } as const;
  if (who.kind !== 'device' || target === undefined) return forbidden;
  if (!mayUse(rightsOfDevice(who), { action: 'publish', topic })) return forbidden;
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
  const { productKey, revocations } = who;
  const outcome = await callDevice(env, who.deviceId, 'publish', 'once', (device) =>
    device.publish({ productKey, revocations }, target.action, text),
  );
  if (!outcome.ok) return outcome.refusal;
  const taken = outcome.value;
  return taken.result === 'rejected' ? { kind: 'invalid_input', path: 'payload', problem: taken.reason } : undefined;
}
