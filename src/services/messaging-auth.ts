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
import type { PresenceEvent } from '../domain/presence.ts';
import { deviceSession } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

export type ConnectRequest = { clientId: string; username: string; password: string };

export type ConnectDecision =
  | { isAllowed: true; rights: readonly TopicRight[] }
  | { isAllowed: false; reason: 'invalid_client_id' | 'invalid_password' | 'device_not_found' | 'device_disabled' };

export async function decideConnect(context: ServiceContext, request: ConnectRequest): Promise<ConnectDecision> {
  if (request.username === bridgeName) return decideBridge(context, request);
  const named = parseMessagingName(request.username);
  if (named === undefined) return { isAllowed: false, reason: 'device_not_found' };
  if (request.clientId !== messagingName(named)) return { isAllowed: false, reason: 'invalid_client_id' };
  const outcome = await deviceSession(context.env, named.deviceId).authenticate({
    productKey: named.productKey,
    passwordDigest: await digestOf(request.password),
  });
  if (outcome.ok) return { isAllowed: true, rights: rightsOfDevice(named) };
  const reason =
    outcome.error === 'device_disabled' || outcome.error === 'device_not_found' ? outcome.error : 'invalid_password';
  return { isAllowed: false, reason };
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
  if (device !== undefined) await deviceSession(context.env, device.deviceId).reportConnection(event);
}

async function decideBridge(context: ServiceContext, request: ConnectRequest): Promise<ConnectDecision> {
  if (request.clientId !== bridgeName) return { isAllowed: false, reason: 'invalid_client_id' };
  const isBridge = await isOneOf(request.password, context.config.bridgeSecrets);
  return isBridge ? { isAllowed: true, rights: bridgeRights } : { isAllowed: false, reason: 'invalid_password' };
}
