// A device activates itself (interface 4.3, decisions Activation): record in D1, credentials in its DeviceSession,
// answer within a 1 KiB parser. Secrets leave here once and are kept as digests only.
import type { Config } from '../config.ts';
import { createId, createSecret, digestOf } from '../crypto/secrets.ts';
import { openDatabase, type Database } from '../db/client.ts';
import { deleteDevice, findDeviceBySerial, insertDevice, updateActivation, type DeviceRow } from '../db/devices.ts';
import { findProduct, type ProductRow } from '../db/products.ts';
import { RefusedError } from '../domain/refusal.ts';
import { topicOf, type DeviceIdentity } from '../domain/topics.ts';
import { callDevice } from '../durable/stubs.ts';
import { topicActions } from '../protocol/mqtt.ts';
import { provisionAtBroker } from './broker-provisioning.ts';
import { describeConnection } from './connection-data.ts';
import type { ServiceContext } from './context.ts';

export type ActivationRequest = {
  productKey: string;
  deviceSN: string;
  firmwareVersion?: string | undefined;
  chipModel?: string | undefined;
};

const maxNameLength = 100;
/** An activation that keeps meeting deletions of the same serial gives up; the device tries again in 5 s. */
const maxAttempts = 5;

/** @throws RefusedError invalid_product_key, product_disabled, device_disabled */
export async function activateDevice(context: ServiceContext, request: ActivationRequest) {
  const { env, config } = context;
  const startedAtMs = Date.now();
  const db = openDatabase(env.DB, 'first-primary');
  const deviceSecret = createSecret('sk_', 32);
  const password = createSecret('tk_', 48);
  const digests = { secretDigest: await digestOf(deviceSecret), passwordDigest: await digestOf(password) };
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const product = await requireProduct(db, request.productKey);
    const device = await findOrMakeDevice(db, product, request);
    // Its product or its record went at this very moment: what is true now decides.
    if (device === undefined) continue;
    if (device.isDisabled) throw new RefusedError({ kind: 'device_disabled', deviceId: device.deviceId });
    const { productKey, controlMode, offlineGraceSeconds, updatedAt: productChangedAtMs } = product;
    const { deviceId, ownerId, name } = device;
    const identity = { productKey, deviceId };
    const facts = { productKey, ownerId, name, controlMode, offlineGraceSeconds, productChangedAtMs };
    const provisioned = await callDevice(env, deviceId, 'provision', 'once', (session) =>
      session.provision({ ...facts, ...digests }),
    );
    if (provisioned.ok) {
      if (provisioned.value.isNew) await catchUpWithProduct(env, db, product, deviceId);
      await provisionAtBroker(context, identity, { kind: 'upsert', password }, startedAtMs);
      return answerOf(config, identity, deviceSecret, password);
    }
    if (provisioned.refusal.kind === 'device_disabled') throw new RefusedError(provisioned.refusal);
    // Deleted meanwhile. Finishing the deletion is harmless, and needed where it was cut off. The record goes last: with
    // it goes all that leads back to the credential.
    await provisionAtBroker(context, identity, { kind: 'delete' }, Date.now());
    await deleteDevice(db, deviceId);
  }
  throw new Error('activation kept meeting deletions');
}

async function requireProduct(db: Database, productKey: string): Promise<ProductRow> {
  const product = await findProduct(db, productKey);
  if (product === undefined) throw new RefusedError({ kind: 'unknown_product_key', productKey });
  if (product.status !== 1) throw new RefusedError({ kind: 'product_disabled', productKey });
  return product;
}

/** A change of the product that came while its new device was being made has passed that device by. */
async function catchUpWithProduct(env: Env, db: Database, before: ProductRow, deviceId: string): Promise<void> {
  const product = await findProduct(db, before.productKey);
  if (product === undefined || product.updatedAt === before.updatedAt) return;
  const { controlMode, offlineGraceSeconds, updatedAt: productChangedAtMs } = product;
  await callDevice(env, deviceId, 'changeProduct', 'repeatable', (device) =>
    device.changeProduct({ controlMode, offlineGraceSeconds, productChangedAtMs }),
  );
}

/** Of two activations of a new serial at the same moment, both get the same device. */
async function findOrMakeDevice(
  db: Database,
  product: ProductRow,
  { deviceSN, ...reported }: ActivationRequest,
): Promise<DeviceRow | undefined> {
  const known = await findDeviceBySerial(db, product.id, deviceSN);
  const firmwareVersion = reported.firmwareVersion ?? known?.firmwareVersion ?? '';
  const chipModel = reported.chipModel ?? known?.chipModel ?? '';
  if (known === undefined) {
    const name = Array.from(`${product.name} ${deviceSN}`).slice(0, maxNameLength).join('');
    const facts = { deviceSN, name, firmwareVersion, chipModel };
    await insertDevice(db, { deviceId: createId('dev_', 8), productId: product.id, ...facts, createdAt: Date.now() });
    return findDeviceBySerial(db, product.id, deviceSN);
  }
  const isNews = known.firmwareVersion !== firmwareVersion || known.chipModel !== chipModel;
  if (isNews && !known.isDisabled) await updateActivation(db, known.deviceId, { firmwareVersion, chipModel });
  return known;
}

/** The specified members and no others: each costs the device's parser 16 bytes and its text (tolerance 1). */
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
