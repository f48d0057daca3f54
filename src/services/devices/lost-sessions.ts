// A device whose session was lost while D1 still has its record: its object gets back from D1 its owner, members, transfer offer
// and name. Credentials and history are lost: it has to activate again. No hot path comes here.
import { findMembers } from '../../db/devices/members.ts';
import { findOpenOffer } from '../../db/devices/transfers.ts';
import { findDevice, type DeviceRow } from '../../db/devices/devices.ts';
import { findProduct, type ProductRow } from '../../db/products/products.ts';
import { productFactsOf } from '../../domain/device/ownership/ownership.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import { log } from '../../log.ts';
import type { ServiceContext } from '../../context.ts';

type Traces = Pick<DeviceRow, 'projectionVersion' | 'membersVersion' | 'claimedAt'>;

export function hadSession({ projectionVersion, membersVersion, claimedAt }: Traces): boolean {
  return projectionVersion > 0 || membersVersion > 0 || claimedAt !== null;
}

export function factsOf(device: DeviceRow, product: ProductRow) {
  const { ownerId, claimedAt: claimedAtMs, name, isDisabled } = device;
  const { productKey, ownerId: productOwnerId } = product;
  return { productKey, ownerId, productOwnerId, claimedAtMs, name, isDisabled, ...productFactsOf(product) };
}

export async function restoreSession(context: ServiceContext, device: DeviceRow, product: ProductRow): Promise<void> {
  const db = context.primary();
  const { id, deviceId, ownerId, membersVersion, projectionVersion } = device;
  const members = await findMembers(db, id);
  const offer = (await findOpenOffer(db, deviceId, ownerId, Date.now())) ?? null;
  const lost = { facts: factsOf(device, product), members, membersVersion, offer, projectionVersion };
  await callDevice(context.env, deviceId, 'idempotent').restore(lost);
  log('warn', 'session of a device restored from its record: it has to activate again', { deviceId });
}

export async function restoreById(context: ServiceContext, deviceId: string): Promise<boolean> {
  const db = context.primary();
  const record = await findDevice(db, deviceId);
  if (record === undefined || !hadSession(record.device)) return false;
  const product = await findProduct(db, record.product.productKey);
  if (product === undefined) return false;
  await restoreSession(context, record.device, product);
  return true;
}
