// Who may log in at the broker and use which topic there (interface 5 rule 4, decisions). One policy; the adapters in
// routes/broker-hooks/ only translate. Logs no secret and no password.
import { digestOf, isOneOf } from '../crypto/secrets.ts';
import {
  bridgeName,
  bridgeRights,
  mayReceive,
  mayUse,
  rightsOfDevice,
  type TopicRight,
  type TopicUse,
} from '../domain/topic-rights.ts';
import { messagingName, parseMessagingName } from '../domain/topics.ts';
import type { PresenceEvent } from '../domain/device/connection.ts';
import { refuse, type Outcome } from '../domain/refusal.ts';
import { callDevice } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

export type ConnectRequest = { clientId: string; username: string; password: string };

/** The rights of whoever may log in, or why it may not. */
export async function decideConnect(
  context: ServiceContext,
  request: ConnectRequest,
): Promise<Outcome<readonly TopicRight[]>> {
  if (request.username === bridgeName) return decideBridge(context, request);
  const named = parseMessagingName(request.username);
  if (named === undefined) return refuse({ kind: 'not_found', what: 'device' });
  const outcome = await callDevice(context.env, named.deviceId, 'authenticate', 'repeatable', async (device) =>
    device.authenticate({
      productKey: named.productKey,
      isClientIdRight: request.clientId === messagingName(named),
      passwordDigest: await digestOf(request.password),
    }),
  );
  return outcome.ok ? { ok: true, value: rightsOfDevice(named) } : refuse(outcome.refusal);
}

/** Whether a name that has logged in may do this. Asks nobody: brokers call this once a message. */
export function decideTopic(username: string, use: TopicUse): boolean {
  const rights = rightsOfUser(username);
  return rights !== undefined && mayUse(rights, use);
}

/** As `decideTopic`, for brokers that ask again when they deliver a message. */
export function decideDelivery(username: string, topic: string): boolean {
  const rights = rightsOfUser(username);
  return rights !== undefined && mayReceive(rights, topic);
}

/** undefined for a name that cannot have logged in. */
export function rightsOfUser(username: string): readonly TopicRight[] | undefined {
  if (username === bridgeName) return bridgeRights;
  const device = parseMessagingName(username);
  return device && rightsOfDevice(device);
}

/** A broker's report of a session that began or ended. Unknown client ids (the bridge, strangers) are not devices. */
export async function reportConnection(
  context: ServiceContext,
  clientId: string,
  event: Extract<PresenceEvent, { kind: 'connected' | 'disconnected' }>,
): Promise<void> {
  const device = parseMessagingName(clientId);
  if (device === undefined) return;
  await callDevice(context.env, device.deviceId, 'reportConnection', 'repeatable', (session) =>
    session.reportConnection(event),
  );
}

async function decideBridge(context: ServiceContext, request: ConnectRequest): Promise<Outcome<readonly TopicRight[]>> {
  if (request.clientId !== bridgeName) return refuse({ kind: 'wrong_client_id' });
  const isBridge = await isOneOf(request.password, context.config.bridgeSecrets);
  return isBridge
    ? { ok: true, value: bridgeRights }
    : refuse({ kind: 'credential_refused', credential: 'messaging_password', problem: 'wrong' });
}
