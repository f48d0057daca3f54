// Deletes devices: one, or those of a product that a filter names, slice by slice. The session ends first, so that no
// credential is valid after the answer, then the record. If a record is left over, an activation or another deletion
// removes it: the session keeps a tombstone for a while.
import { countDevicesOf, listDevicesOf, type ProductDevicesFilter } from '../../db/devices/lists.ts';
import { deleteRecord } from '../../db/devices/devices.ts';
import type { Actor } from '../../domain/access.ts';
import { invalidInput, RefusedError, type Outcome } from '../../domain/refusal.ts';
import type { DeviceIdentity } from '../../domain/topics.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import { endAtBroker, scheduleDeletionAtBroker } from '../broker/provisioning.ts';
import type { ServiceContext } from '../../context.ts';
import { devicesPerSlice, runSlice } from '../operations/device-slices.ts';
import { findOwnProduct } from '../products/products.ts';
import { requireDevice } from './device-access.ts';

const maxCounted = 10_000;

export async function deleteDevice(context: ServiceContext, actor: Actor, deviceId: string) {
  const requestedAtMs = Date.now();
  const { product } = await requireDevice(context, actor, deviceId, 'delete');
  await endSession(context, actor, { productKey: product.productKey, deviceId }, requestedAtMs);
  await deleteRecord(context.primary(), deviceId);
  return { deviceId };
}

/** One slice, the newest first. A device that fails keeps its record. A request without a filter is refused. */
export async function deleteDevicesOf(
  context: ServiceContext,
  actor: Actor,
  { productKey }: { productKey: string },
  filter: Omit<ProductDevicesFilter, 'productId' | 'ownerId'>,
): Promise<{ deleted: number; failed: number; remaining: number }> {
  const db = context.primary();
  const { id: productId, ownerId } = await findOwnProduct(db, actor, productKey, 'manageProducts');
  if (Object.values(filter).every((value) => value === undefined)) {
    throw invalidInput('createdAfter', 'a filter is needed');
  }
  const wanted = { ...filter, productId, ownerId };
  // Another user may have claimed one of them meanwhile: that one its object refuses.
  const devices = await listDevicesOf(db, wanted, devicesPerSlice);
  const { results, failed } = await runSlice(devices, devicesPerSlice, async ({ deviceId }) => {
    await endSession(context, actor, { productKey, deviceId }, Date.now());
    await deleteRecord(db, deviceId);
  });
  return { deleted: results.length, failed, remaining: await countDevicesOf(db, wanted, maxCounted) };
}

/** The object decides, because D1 may lag behind another owner. It is asked first: the deletion at the broker cannot be undone. */
async function endSession(context: ServiceContext, actor: Actor, device: DeviceIdentity, requestedAtMs: number) {
  const session = callDevice(context.env, device.deviceId, 'idempotent');
  const refuseUnlessGone = async (asked: Promise<Outcome<null>>) => {
    const outcome = await asked;
    // A registered serial has no session: D1 has decided.
    if (!outcome.ok && outcome.refusal.kind !== 'not_found') throw new RefusedError(outcome.refusal);
  };
  await refuseUnlessGone(session.allows(actor, 'delete'));
  // Noted before the session ends: a deletion that is interrupted must not leave a credential at the broker. If that fails
  // the device can be deleted again; until then it gets new credentials by activating.
  await scheduleDeletionAtBroker(context, device, requestedAtMs);
  await refuseUnlessGone(session.decide({ kind: 'deleted', actor }));
  // An activation in between may have restored the credential: after the session's end none can.
  await endAtBroker(context, device, { kind: 'delete' }, Date.now());
}
