// Device records for their owner: list, read, delete. Presence in here is D1's copy; the status view and control go
// to the device's session (services/control.ts).
import { openDatabase } from '../db/client.ts';
import { deleteDevice as deleteDeviceRow, findDevice, listDevices, type DeviceWithProduct } from '../db/devices.ts';
import { describeStatus, type ConnectionStatusCode, type DeviceStatusCode } from '../domain/device-status.ts';
import { ServiceError } from '../domain/errors.ts';
import type { Page, PageRequest } from '../domain/pagination.ts';
import { isDeviceId } from '../domain/topics.ts';
import { deviceSession } from '../durable/stubs.ts';
import { provisionAtBroker } from './broker-provisioning.ts';
import type { ServiceContext } from './context.ts';

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

/** @throws ServiceError device_not_found, forbidden */
export async function readDevice({ env }: ServiceContext, userId: number, deviceId: string): Promise<DeviceView> {
  return describeDevice(await requireDevice(env, userId, deviceId));
}

/**
 * Ends the device: its session first, so that no credential outlives the answer, then its record. Where the record
 * stays behind, an activation or another deletion removes it: the session remembers for a while that it has ended.
 * @throws ServiceError device_not_found, forbidden
 */
export async function deleteDevice(context: ServiceContext, userId: number, deviceId: string) {
  const { env } = context;
  const { product } = await requireDevice(env, userId, deviceId);
  await deviceSession(env, deviceId).wipe();
  const { productKey } = product;
  await provisionAtBroker(context, { productKey, deviceId }, { kind: 'remove' }, Date.now());
  await deleteDeviceRow(openDatabase(env.DB, 'first-primary'), deviceId);
  return { deviceId };
}

async function requireDevice(env: Env, userId: number, deviceId: string): Promise<DeviceWithProduct> {
  const found = isDeviceId(deviceId) ? await findDevice(openDatabase(env.DB, 'first-primary'), deviceId) : undefined;
  if (found === undefined) throw new ServiceError('device_not_found');
  if (found.device.ownerId !== userId) throw new ServiceError('forbidden');
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
