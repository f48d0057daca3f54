// Who may do what on a device, for services that read its record; the device's session checks the same for what it is asked.
import { findDevice, type DeviceWithProduct } from '../../db/devices/devices.ts';
import { findMemberRole } from '../../db/devices/members.ts';
import { refusalOf, roleOf, type Actor, type DeviceAction, type Role } from '../../domain/access.ts';
import { RefusedError } from '../../domain/refusal.ts';
import { isDeviceId } from '../../domain/topics.ts';
import type { ServiceContext } from '../../context.ts';

/** @throws RefusedError device_not_found, forbidden */
export async function requireDevice(
  context: ServiceContext,
  actor: Actor,
  deviceId: string,
  action: DeviceAction,
): Promise<DeviceWithProduct & { role: Role }> {
  const db = context.primary();
  const found = isDeviceId(deviceId) ? await findDevice(db, deviceId) : undefined;
  if (found === undefined) throw new RefusedError({ kind: 'not_found', what: 'device', id: deviceId });
  const { device, product } = found;
  const { userId } = actor;
  const memberRole = device.ownerId === userId ? undefined : await findMemberRole(db, device.id, userId);
  const ownership = {
    ownerId: device.ownerId,
    productOwnerId: product.ownerId,
    members: memberRole === undefined ? [] : [{ userId, role: memberRole }],
  };
  const refusal = refusalOf({ deviceId, productKey: product.productKey, ...ownership }, actor, action);
  if (refusal !== undefined) throw new RefusedError(refusal);
  return { ...found, role: roleOf(ownership, userId) ?? 'owner' };
}
