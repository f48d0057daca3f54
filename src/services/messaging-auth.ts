// Who may log in at the broker and use which topic there (contract 5 rule 4). One policy; the adapters in
// routes/broker-hooks/ only translate.
import { digestOf, isOneOf } from '../crypto/secrets.ts';
import { networkOf } from '../domain/client-network.ts';
import {
  bridgeName,
  bridgeRights,
  isBridgeClientId,
  mayReceive,
  mayUse,
  rightsOfDevice,
  type TopicRight,
  type TopicUse,
} from '../domain/topic-rights.ts';
import { messagingName, parseMessagingName } from '../domain/topics.ts';
import type { PresenceEvent } from '../domain/device/connection.ts';
import { credentialRefused, refuse, type Outcome, type Refusal } from '../domain/refusal.ts';
import { callDevice } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';
import { isWithinShield, refusedBy } from './flood-shield.ts';
import { rememberNewest } from './newest.ts';

// Per isolate, each bounded by `rememberedDeviceNames`. A name that no device has wakes an object for nothing. Its id is random,
// so that no device will have it soon. By the whole name: a wrong product key must not close a device's own.
const unknownMs = 10_000;
const blockedMs = 60_000;
const shield = 'UNKNOWN_DEVICE_LIMIT';
const knownNames = new Map<string, true>();
const unknownUntilMs = new Map<string, number>();
const blockedUntilMs = new Map<string, number>();

/** `peer` is the network address of the client, where the broker tells it. */
export type ConnectRequest = { clientId: string; username: string; password: string; peer?: string | undefined };

/** Some brokers ask again when they deliver a message. */
type Delivery = { action: 'receive'; topic: string };

/** The rights of whoever may log in, or why it may not. */
export async function decideConnect(
  context: ServiceContext,
  request: ConnectRequest,
): Promise<Outcome<readonly TopicRight[]>> {
  if (request.username === bridgeName) return decideBridge(context, request);
  const named = parseMessagingName(request.username);
  if (named === undefined) return refuse({ kind: 'not_found', what: 'device', id: request.username });
  const { username, peer } = request;
  const network = peer === undefined ? undefined : networkOf(peer);
  const refusal = refuseUnknown(username, network);
  if (refusal !== undefined) return refuse(refusal);
  const outcome = await callDevice(context.env, named.deviceId, 'authenticate', 'idempotent', async (device) =>
    device.authenticate({
      productKey: named.productKey,
      isClientIdRight: request.clientId === messagingName(named),
      passwordDigest: await digestOf(request.password),
      peer,
    }),
  );
  if (outcome.ok) {
    rememberNewest(knownNames, username, true, context.config.limits.rememberedDeviceNames);
    return { ok: true, value: rightsOfDevice(named) };
  }
  if (outcome.refusal.kind === 'not_found') await noteUnknown(context, username, network);
  return outcome;
}

/**
 * Refuses a name that no device had moments ago, and, from an address that tried too many of these, any that has not logged
 * in here before.
 */
function refuseUnknown(username: string, network: string | undefined): Refusal | undefined {
  const nowMs = Date.now();
  if ((unknownUntilMs.get(username) ?? 0) > nowMs) return { kind: 'not_found', what: 'device', id: username };
  const blockedForMs = (blockedUntilMs.get(network ?? '') ?? 0) - nowMs;
  if (blockedForMs <= 0 || knownNames.has(username)) return undefined;
  return { ...refusedBy(shield), retryAfterSeconds: Math.ceil(blockedForMs / 1000) };
}

async function noteUnknown(context: ServiceContext, username: string, network: string | undefined): Promise<void> {
  const { rememberedDeviceNames } = context.config.limits;
  rememberNewest(unknownUntilMs, username, Date.now() + unknownMs, rememberedDeviceNames);
  if (network !== undefined && !(await isWithinShield(context, shield, network))) {
    rememberNewest(blockedUntilMs, network, Date.now() + blockedMs, rememberedDeviceNames);
  }
}

/** Why a name that has logged in may not do this; undefined where it may. Calls nothing: brokers ask once a message. */
export function refuseTopic(username: string, use: TopicUse | Delivery): Refusal | undefined {
  const rights = rightsOfUser(username) ?? [];
  const isAllowed = use.action === 'receive' ? mayReceive(rights, use.topic) : mayUse(rights, use);
  return isAllowed ? undefined : { kind: 'topic_forbidden', action: use.action, topic: use.topic };
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
  await callDevice(context.env, device.deviceId, 'reportConnection', 'idempotent', (session) =>
    session.reportConnection(event),
  );
}

async function decideBridge(context: ServiceContext, request: ConnectRequest): Promise<Outcome<readonly TopicRight[]>> {
  if (!isBridgeClientId(request.clientId)) return refuse({ kind: 'wrong_client_id' });
  const isBridge = await isOneOf(request.password, context.config.bridgeMqttPasswords);
  return isBridge ? { ok: true, value: bridgeRights } : refuse(credentialRefused('bridge_password', 'wrong'));
}
