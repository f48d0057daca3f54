// Who may log in at the broker and use which topic there (contract 5 rule 4). One policy; the adapters in
// routes/broker-hooks/ only translate.
import { digestIfCertified } from '../../crypto/messaging-password.ts';
import { isOneOf } from '../../crypto/secrets.ts';
import { networkOf } from '../../domain/client-network.ts';
import {
  bridgeName,
  bridgeRights,
  isBridgeClientId,
  mayUse,
  rightsOfDevice,
  type TopicRight,
  type TopicUse,
} from '../../domain/topic-rights.ts';
import { messagingName, parseMessagingName } from '../../domain/topics.ts';
import type { PresenceEvent } from '../../domain/device/presence/presence.ts';
import { credentialRefused, refuse, type Outcome, type Refusal } from '../../domain/refusal.ts';
import { callDevice, resultOr } from '../../objects/calls/stubs.ts';
import { runInBackground, type ServiceContext } from '../../context.ts';

/** `peer` is the address of the client, if the broker tells it. */
export type ConnectRequest = { clientId: string; username: string; password: string; peer?: string | undefined };

export async function decideConnect(
  context: ServiceContext,
  request: ConnectRequest,
): Promise<Outcome<readonly TopicRight[]>> {
  if (request.username === bridgeName) return decideBridge(context, request);
  const named = parseMessagingName(request.username);
  if (named === undefined) return refuse({ kind: 'not_found', what: 'device', id: request.username });
  const { clientId, password, peer } = request;
  const digest = await digestIfCertified(context.config.messagingSecrets, named, password);
  if (!digest.ok) return digest;
  const outcome = await callDevice(context.env, named.deviceId, 'idempotent').authenticate({
    productKey: named.productKey,
    isClientIdRight: clientId === messagingName(named),
    passwordDigest: digest.value,
    peer: peer && networkOf(peer),
  });
  return outcome.ok ? { ok: true, value: rightsOfDevice(named) } : outcome;
}

/**
 * Why a name that has logged in may not do this; undefined if it may: then it calls nothing, because brokers ask once a message.
 * The owner of a device is told of a publish that the broker has taken and passes to nobody.
 */
export function decideTopic({ env }: ServiceContext, username: string, use: TopicUse): Refusal | undefined {
  if (mayUse(rightsOfUser(username) ?? [], use)) return undefined;
  const refusal = { kind: 'topic_forbidden', action: use.action, topic: use.topic } as const;
  const device = parseMessagingName(username);
  if (use.action !== 'publish' || device === undefined) return refusal;
  const reason = mayUse(rightsOfDevice(device), { ...use, isRetained: false }) ? 'retained' : 'wrong_topic';
  const event = { kind: 'publish_refused', reason, topic: use.topic } as const;
  const telling = callDevice(env, device.deviceId, 'once').decide(event);
  runInBackground('tell a device of a refused publish', resultOr(null, telling));
  return refusal;
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
  await callDevice(context.env, device.deviceId, 'idempotent').decide({ kind: 'connection_reported', report: event });
}

async function decideBridge(context: ServiceContext, request: ConnectRequest): Promise<Outcome<readonly TopicRight[]>> {
  if (!isBridgeClientId(request.clientId)) return refuse({ kind: 'wrong_client_id' });
  const isBridge = await isOneOf(request.password, context.config.bridgeMqttPasswords);
  return isBridge ? { ok: true, value: bridgeRights } : refuse(credentialRefused('bridge_password', 'wrong'));
}
