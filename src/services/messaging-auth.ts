// Who may log in at the broker and with which topic rights (interface 5 rule 4, decisions). One policy; the adapters
// in routes/broker-hooks.ts only translate. Logs no secret and no password.
import { digestOf, isOneOf } from '../crypto/secrets.ts';
import { topicOf, messagingName, parseMessagingName, type DeviceIdentity } from '../domain/topics.ts';
import type { PresenceEvent } from '../domain/presence.ts';
import { deviceSession } from '../durable/stubs.ts';
import { uplinkFilters } from '../protocol/bridge.ts';
import type { ServiceContext } from './context.ts';

export type ConnectRequest = { clientId: string; username: string; password: string };

/** A right in the broker's terms; the first that matches decides, and nothing else is allowed. */
export type TopicRight = {
  action: 'publish' | 'subscribe';
  /** `exact`: this very topic or filter; otherwise whatever stays inside the filter. */
  topic: string;
  isExact: boolean;
  mayRetain: boolean;
};

export type ConnectDecision =
  | { isAllowed: true; rights: TopicRight[] }
  | { isAllowed: false; reason: 'invalid_client_id' | 'invalid_password' | 'device_not_found' | 'device_disabled' };

/** The bridge's name at the broker: a name without a right of its own, its password is one of the bridge secrets. */
export const bridgeName = 'latchwork-bridge';

export async function decideConnect(context: ServiceContext, request: ConnectRequest): Promise<ConnectDecision> {
  if (request.username === bridgeName) return decideBridge(context, request);
  const named = parseMessagingName(request.username);
  if (named === undefined) return { isAllowed: false, reason: 'device_not_found' };
  if (request.clientId !== messagingName(named)) return { isAllowed: false, reason: 'invalid_client_id' };
  const outcome = await deviceSession(context.env, named.deviceId).authenticate({
    productKey: named.productKey,
    passwordDigest: await digestOf(request.password),
  });
  if (outcome.ok) return { isAllowed: true, rights: rightsOf(outcome.value) };
  const reason =
    outcome.error === 'device_disabled' || outcome.error === 'device_not_found' ? outcome.error : 'invalid_password';
  return { isAllowed: false, reason };
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
  if (!isBridge) return { isAllowed: false, reason: 'invalid_password' };
  const publishes = ['/sys/+/+/thing/service/property/set', '/sys/+/+/status'];
  return {
    isAllowed: true,
    rights: [
      ...uplinkFilters.map((topic) => ({ action: 'subscribe' as const, topic, isExact: true, mayRetain: false })),
      ...publishes.map((topic) => ({ action: 'publish' as const, topic, isExact: false, mayRetain: false })),
    ],
  };
}

function rightsOf(device: DeviceIdentity): TopicRight[] {
  const publishes = [
    { topic: topicOf(device, 'thing/event/property/post'), mayRetain: false },
    { topic: topicOf(device, 'thing/service/property/set_reply'), mayRetain: false },
    { topic: topicOf(device, 'status'), mayRetain: true },
  ];
  return [
    ...publishes.map((right) => ({ ...right, action: 'publish' as const, isExact: true })),
    { action: 'subscribe', topic: `/sys/${device.productKey}/${device.deviceId}/#`, isExact: false, mayRetain: false },
  ];
}
