// A device activates itself (contract 4.3, decision: activation): record in D1, credentials in its DeviceSession, an
// answer for a 1 KiB parser. Secrets are returned once and stored as digests only.
import type { Config } from '../../config.ts';
import { createMessagingPassword } from '../../crypto/messaging-password.ts';
import { createId, createSecret, digestOf } from '../../crypto/secrets.ts';
import type { Database } from '../../db/client.ts';
import {
  activateRegistered,
  deleteRecord,
  findDeviceBySerial,
  insertDevice,
  updateRecord,
  type DeviceRow,
  type ReachedLimit,
} from '../../db/devices/devices.ts';
import { findProduct, type ProductRow } from '../../db/products/products.ts';
import { RefusedError, type Refusal } from '../../domain/refusal.ts';
import { productFactsOf } from '../../domain/device/ownership/ownership.ts';
import { nameOf } from '../../domain/names.ts';
import { topicOf, type DeviceIdentity } from '../../domain/topics.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import type { ActivateBody } from '../../protocol/http/devices.ts';
import { topicActions } from '../../protocol/mqtt.ts';
import { disconnectClient } from '../broker/broker-sessions.ts';
import { recordSecurityEvent } from '../accounts/security-events.ts';
import { provisionAtBroker } from '../broker/provisioning.ts';
import { readClaimToken } from './ownership.ts';
import { describeConnection } from './devices.ts';
import type { ServiceContext } from '../../context.ts';
import { holdToShield } from '../../pacing/rate-limits.ts';
import { factsOf, hadSession, restoreSession } from './device-access.ts';
import { hourMs } from '../../domain/time.ts';

/** Deletions of the same serial at the same time may fail an attempt; the device itself tries again in 5 s. */
const maxAttempts = 5;

/** `claimToken`: a part of the address that the device called. */
export async function activateDevice(context: ServiceContext, request: ActivateBody, claimToken?: string) {
  const startedAtMs = Date.now();
  const network = context.config.rateLimits === 'production' ? context.clientAddress : null;
  const db = context.primary();
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const { productKey, deviceSN } = request;
    const product = await findProduct(context.primary(), productKey);
    if (product === undefined) throw new RefusedError({ kind: 'unknown_product_key', productKey });
    if (product.status !== 1) throw new RefusedError({ kind: 'product_disabled', productKey });
    const usedBy = { device: `${product.id} ${deviceSN}`, productKey };
    const claim = claimToken === undefined ? undefined : await readClaimToken(context, claimToken, usedBy);
    const record = await findDeviceBySerial(db, product.id, deviceSN);
    const hasCode = record !== undefined && record.claimCodeDigest !== null;
    const lacksCode = claim !== undefined && claim.hasShownCode !== true && hasCode;
    refuseFirst(product, record);
    // Of a device that has activated, its session decides.
    if (lacksCode && record.activatedAt === null) throw new RefusedError({ kind: 'claim_code_required' });
    const proof = { claimantId: claim?.userId, lacksCode };
    const activation = { product, request, proof, network, startedAtMs };
    // Without an answer its product or its record was deleted meanwhile: start over with the present state.
    const answer =
      record === undefined ? await activateNew(context, activation) : await activateKnown(context, activation, record);
    if (answer !== undefined) return answer;
  }
  throw new Error('activation failed: the device was deleted during each attempt');
}

type Activation = {
  product: ProductRow;
  request: ActivateBody;
  proof: { claimantId: number | undefined; lacksCode: boolean };
  /** By which unused devices are counted; null counts none. */
  network: string | null;
  startedAtMs: number;
};

/** New serials cost rows and an object. Known serials do not count: a flood cannot lock them out (field note 8). */
async function activateNew(context: ServiceContext, activation: Activation) {
  const { product, request, network: activationNetwork } = activation;
  const { id: productId, productKey } = product;
  // The address first: what it is refused does not count against the product.
  await holdToShield(context, 'NEW_DEVICE_ADDRESS_LIMIT', `${productKey} ${context.clientAddress}`);
  await holdToShield(context, 'NEW_DEVICE_LIMIT', productKey);
  const { deviceSN, firmwareVersion = '', chipModel = '' } = request;
  const facts = { deviceSN, name: nameOf(product.name, deviceSN), firmwareVersion, chipModel, activationNetwork };
  const record = { deviceId: createId('dev_', 8), productId, ...facts, createdAt: Date.now() };
  const db = context.primary();
  const reached = await insertDevice(db, record, context.config.limits);
  const made = await findDeviceBySerial(db, productId, deviceSN);
  if (made === undefined && reached !== undefined) throw new RefusedError(refusalOf(reached, record.createdAt));
  return made && issueCredentials(context, activation, made);
}

/** A registered serial becomes a device here; undefined if it was removed, or activated, at the same moment. */
async function activateKnown(context: ServiceContext, activation: Activation, record: DeviceRow) {
  const db = context.primary();
  const { deviceId, activatedAt } = record;
  if (activatedAt === null && !(await activateRegistered(db, deviceId, activation.network, Date.now())))
    return undefined;
  const answer = await issueCredentials(context, activation, record);
  if (answer !== undefined) await noteVersions(db, record, activation.request);
  return answer;
}

/** undefined if the device was deleted meanwhile. */
async function issueCredentials(context: ServiceContext, activation: Activation, device: DeviceRow) {
  const { product, request, startedAtMs } = activation;
  const { env, config, clientAddress: address } = context;
  const db = context.primary();
  const deviceSecret = createSecret('sk_', 32);
  const { productKey } = product;
  const { deviceId } = device;
  const identity = { productKey, deviceId };
  const password = await createMessagingPassword(config.messagingSecrets, identity);
  const digests = { secretDigest: await digestOf(deviceSecret), passwordDigest: await digestOf(password) };
  const { deviceSecret: shownSecret } = request;
  const givenSecretDigest = typeof shownSecret === 'string' ? await digestOf(shownSecret) : undefined;
  const defaultName = nameOf(product.name, device.deviceSN);
  const proof = { ...activation.proof, givenSecretDigest, address, defaultName };
  const facts = factsOf(device, product);
  const provision = (wasActivated: boolean) =>
    callDevice(env, deviceId, 'once').provision({ facts, ...digests, ...proof, wasActivated });
  let provisioned = await provision(hadSession(device));
  const isLost = !provisioned.ok && provisioned.refusal.kind === 'device_not_activated';
  if (isLost) {
    await restoreSession(context, device, product);
    provisioned = await provision(true);
  }
  if (provisioned.ok) {
    if (provisioned.value.isNew || isLost) {
      const { projectionVersion, membersVersion } = device;
      const session = callDevice(env, deviceId, 'idempotent');
      if (projectionVersion < 0) await session.compareRecord(projectionVersion, membersVersion);
      await catchUpWithProduct(env, db, product, deviceId);
    }
    const { endsSessions } = provisioned.value;
    const { claimantId } = proof;
    const isClaimed = claimantId !== undefined && (provisioned.value.isNew || endsSessions);
    if (isClaimed) recordSecurityEvent(context, { userId: claimantId, kind: 'device_claimed', detail: { deviceId } });
    await Promise.all([
      endsSessions ? disconnectClient(context, identity) : undefined,
      provisionAtBroker(context, identity, { kind: 'upsert', password, endsSessions }, startedAtMs),
    ]);
    return answerOf(config, identity, deviceSecret, password);
  }
  if (provisioned.refusal.kind !== 'not_found') throw new RefusedError(provisioned.refusal);
  // Deleted meanwhile. Finish the deletion, in case it was interrupted. The record goes last, because the credential at
  // the broker can only be found through it.
  await provisionAtBroker(context, identity, { kind: 'delete' }, Date.now());
  await deleteRecord(db, deviceId);
  return undefined;
}

function refuseFirst({ activation: policy, productKey }: ProductRow, record: DeviceRow | undefined): void {
  if (policy === 'open' || (record !== undefined && record.activatedAt !== null)) return;
  const isRegistered = record !== undefined;
  if (policy === 'closed' || !isRegistered) throw new RefusedError({ kind: 'activation_refused', productKey, policy });
}

/** A change of the product during the activation was not sent to the new device. */
async function catchUpWithProduct(env: Env, db: Database, before: ProductRow, deviceId: string): Promise<void> {
  const product = await findProduct(db, before.productKey);
  if (product === undefined || product.updatedAt === before.updatedAt) return;
  await callDevice(env, deviceId, 'idempotent').changeProduct(productFactsOf(product));
}

async function noteVersions(db: Database, record: DeviceRow, reported: ActivateBody): Promise<void> {
  const { firmwareVersion = record.firmwareVersion, chipModel = record.chipModel } = reported;
  const isNews = record.firmwareVersion !== firmwareVersion || record.chipModel !== chipModel;
  if (isNews) await updateRecord(db, record.deviceId, { firmwareVersion, chipModel });
}

function refusalOf({ name, max }: ReachedLimit, nowMs: number): Refusal {
  if (name === 'devicesPerProduct') return { kind: 'limit_reached', limit: { name, max } };
  // There is room once some of them have logged in.
  if (name === 'unusedPerNetworkDay') return { kind: 'rate_limited', limit: name, retryAfterSeconds: hourMs / 1000 };
  return { kind: 'rate_limited', limit: name, retryAfterSeconds: Math.ceil((hourMs - (nowMs % hourMs)) / 1000) };
}

/** The specified members and no others: each costs the device's parser 16 bytes and its text (field note 1). */
function answerOf(config: Config, device: DeviceIdentity, deviceSecret: string, password: string) {
  return {
    deviceId: device.deviceId,
    deviceSecret,
    mqtt: describeConnection(config, device, password),
    topics: {
      propertyPost: topicOf(device, topicActions.propertyPost),
      propertySet: topicOf(device, topicActions.propertySet),
      status: topicOf(device, topicActions.status),
    },
  };
}
