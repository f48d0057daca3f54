// A device activates itself (interface 4.3, decisions Activation): record in D1, credentials in its DeviceSession,
// answer within a 1 KiB parser. Secrets leave here once and are kept as digests only.
import { createId, createSecret, digestOf } from '../crypto/secrets.ts';
import { openDatabase } from '../db/client.ts';
import { findDeviceBySerial, findOrCreateDevice, updateActivation } from '../db/devices.ts';
import { findProduct } from '../db/products.ts';
import { ServiceError, unwrap } from '../domain/errors.ts';
import { messagingName, topicOf } from '../domain/topics.ts';
import { deviceSession } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

export type ActivationRequest = {
  productKey: string;
  deviceSN: string;
  firmwareVersion?: string | undefined;
  chipModel?: string | undefined;
};

/** @throws ServiceError invalid_product_key, product_disabled, device_disabled */
export async function activateDevice({ env, config }: ServiceContext, request: ActivationRequest) {
  const db = openDatabase(env.DB, 'first-primary');
  const product = await findProduct(db, request.productKey);
  if (product === undefined) throw new ServiceError('invalid_product_key');
  if (product.status !== 1) throw new ServiceError('product_disabled');

  const nowMs = Date.now();
  const firmwareVersion = request.firmwareVersion ?? '';
  const chipModel = request.chipModel ?? '';
  const known = await findDeviceBySerial(db, product.id, request.deviceSN);
  if (known?.isDisabled === true) throw new ServiceError('device_disabled');
  const device =
    known ??
    (await findOrCreateDevice(db, {
      deviceId: createId('dev_', 8),
      productId: product.id,
      deviceSN: request.deviceSN,
      ownerId: product.ownerId,
      projectId: product.projectId,
      name: `${product.name} ${request.deviceSN}`.slice(0, 100),
      firmwareVersion,
      chipModel,
      connectionStatus: 2,
      activatedAt: nowMs,
      createdAt: nowMs,
    }));

  const deviceSecret = createSecret('sk_', 32);
  const password = createSecret('tk_', 48);
  const provisioned = await deviceSession(env, device.deviceId).provision({
    productKey: product.productKey,
    ownerId: device.ownerId,
    name: device.name,
    controlMode: product.controlMode,
    offlineGraceSeconds: product.offlineGraceSeconds,
    secretDigest: await digestOf(deviceSecret),
    passwordDigest: await digestOf(password),
  });
  unwrap(provisioned);
  if (known !== undefined && (known.firmwareVersion !== firmwareVersion || known.chipModel !== chipModel)) {
    await updateActivation(db, device.deviceId, { firmwareVersion, chipModel });
  }

  const identity = { productKey: product.productKey, deviceId: device.deviceId };
  const name = messagingName(identity);
  return {
    deviceId: device.deviceId,
    deviceSecret,
    mqtt: {
      server: config.broker.host,
      port: config.broker.port,
      portTLS: config.broker.tlsPort,
      username: name,
      password,
      clientId: name,
      keepAlive: config.broker.keepAliveSeconds,
    },
    topics: {
      propertyPost: topicOf(identity, 'thing/event/property/post'),
      propertySet: topicOf(identity, 'thing/service/property/set'),
      status: topicOf(identity, 'status'),
    },
  };
}
