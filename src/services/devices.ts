// Device records for their owner: list, read, change, delete, new credentials. Presence in here is D1's copy; what is
// true now is device-views.ts, commands are control.ts.
import { createSecret, digestOf } from '../crypto/secrets.ts';
import { openDatabase } from '../db/client.ts';
import { deleteDevice as deleteDeviceRow, findDevice, listDevices, type DeviceWithProduct } from '../db/devices.ts';
import { describeStatus, type ConnectionStatusCode, type DeviceStatusCode } from '../domain/device-status.ts';
import { RefusedError, unwrap } from '../domain/refusal.ts';
import type { Page, PageRequest } from '../domain/pagination.ts';
import { isDeviceId } from '../domain/topics.ts';
import { callDevice } from '../durable/stubs.ts';
import { disconnectClient } from './broker-client.ts';
import { provisionAtBroker, scheduleDeletionAtBroker } from './broker-provisioning.ts';
import { describeConnection } from './connection-data.ts';
import type { ServiceContext } from './context.ts';
import { requireDeviceId } from './device-views.ts';

export type DeviceView = ReturnType<typeof describeDevice>;

/** A product key that is not the caller's matches nothing: filters reveal no foreign products. */
export async function pageDevices(
  { env }: ServiceContext,
  filter: { ownerId: number; productKey: string | undefined; statusCode: DeviceStatusCode | undefined },
  page: PageRequest,
): Promise<Page<DeviceView>> {
  const { total, rows } = await listDevices(openDatabase(env.DB, 'first-unconstrained'), filter, page);
  return { list: rows.map(describeDevice), total, ...page };
}

/** @throws RefusedError device_not_found, forbidden */
export async function readDevice({ env }: ServiceContext, userId: number, deviceId: string): Promise<DeviceView> {
  return describeDevice(await requireDevice(env, userId, deviceId));
}

/**
 * Ends the device: its session first, so that no credential outlives the answer, then its record. Where the record
 * stays behind, an activation or another deletion removes it: the session remembers for a while that it has ended.
 * @throws RefusedError device_not_found, forbidden
 */
export async function deleteDevice(context: ServiceContext, userId: number, deviceId: string) {
  const { env } = context;
  const wishedAtMs = Date.now();
  const { product } = await requireDevice(env, userId, deviceId);
  const device = { productKey: product.productKey, deviceId };
  // Noted before the wipe, so that a deletion cut off anywhere leaves the device outside and not its credential inside.
  // Where the wipe itself fails the device can be deleted again, and until then it gets back in by activating again.
  await scheduleDeletionAtBroker(context, device, wishedAtMs);
  await callDevice(env, deviceId, 'wipe', 'repeatable', (device) => device.wipe());
  await Promise.all([
    disconnectClient(context, device),
    // An activation that came in between has wished its device back in: from here on none can.
    provisionAtBroker(context, device, { kind: 'delete' }, Date.now()),
  ]);
  await deleteDeviceRow(openDatabase(env.DB, 'first-primary'), deviceId);
  return { deviceId };
}

/**
 * Changes the session, which is what counts, and through it the record. A disabled device is out when this answers:
 * its relay sessions are closed, its messages change nothing; its broker session is ended where the broker lets us.
 * @throws RefusedError device_not_found, forbidden
 */
export async function changeDevice(
  context: ServiceContext,
  userId: number,
  deviceId: string,
  { name, disabled }: { name?: string | undefined; disabled?: boolean | undefined },
): Promise<DeviceView> {
  const wishedAtMs = Date.now();
  const { device, product } = await requireDevice(context.env, userId, deviceId);
  const change = { ...(name !== undefined && { name }), ...(disabled !== undefined && { isDisabled: disabled }) };
  const changed = unwrap(
    await callDevice(context.env, deviceId, 'administer', 'repeatable', (device) => device.administer(userId, change)),
  );
  const identity = { productKey: product.productKey, deviceId };
  if (disabled === true) {
    await Promise.all([
      disconnectClient(context, identity),
      provisionAtBroker(context, identity, { kind: 'disable' }, wishedAtMs),
    ]);
  }
  if (disabled === false) await provisionAtBroker(context, identity, { kind: 'upsert' }, wishedAtMs);
  return describeDevice({ device: { ...device, ...changed }, product });
}

/**
 * A new messaging password, shown this once. The old ones and their sessions end at once.
 * @throws RefusedError device_not_found, forbidden
 */
export async function replaceCredentials(context: ServiceContext, userId: number, deviceId: string) {
  const { env, config } = context;
  const wishedAtMs = Date.now();
  const password = createSecret('tk_', 48);
  const passwordDigest = await digestOf(password);
  const device = unwrap(
    await callDevice(env, requireDeviceId(deviceId), 'replaceCredentials', 'repeatable', (device) =>
      device.replaceCredentials(userId, passwordDigest),
    ),
  );
  await Promise.all([
    disconnectClient(context, device),
    provisionAtBroker(context, device, { kind: 'upsert', password, endsSessions: true }, wishedAtMs),
  ]);
  return { deviceId, mqtt: describeConnection(config, device, password) };
}

async function requireDevice(env: Env, userId: number, deviceId: string): Promise<DeviceWithProduct> {
  const found = isDeviceId(deviceId) ? await findDevice(openDatabase(env.DB, 'first-primary'), deviceId) : undefined;
  if (found === undefined) throw new RefusedError({ kind: 'not_found', what: 'device', id: deviceId });
  if (found.device.ownerId !== userId) throw new RefusedError({ kind: 'not_owner', of: 'device', id: deviceId });
  return found;
}

function describeDevice({ device, product }: DeviceWithProduct) {
  const isOnline = device.connectionStatus === 1;
  return {
    deviceId: device.deviceId,
    deviceSN: device.deviceSN,
    productKey: product.productKey,
    projectId: device.projectId,
    name: device.name,
    ...describeStatus(device.connectionStatus as ConnectionStatusCode, device.isDisabled),
    firmwareVersion: device.firmwareVersion,
    chipModel: device.chipModel,
    // While it is online the last moment is now; the copy in D1 is of the moment it came.
    lastOnlineAt: isOnline ? new Date().toISOString() : toIso(device.lastOnlineAt),
    activatedAt: toIso(device.activatedAt),
    createdAt: new Date(device.createdAt).toISOString(),
    product: {
      productId: product.id,
      productKey: product.productKey,
      name: product.name,
      uiTemplate: product.uiTemplate,
      iconName: product.iconName,
      iconColor: product.iconColor,
      controlMode: product.controlMode,
      model: product.model,
    },
  };
}

function toIso(timeMs: number | null): string | null {
  return timeMs === null ? null : new Date(timeMs).toISOString();
}
