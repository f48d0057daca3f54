// `npm run reconcile`: compares the device records in D1 with the sessions in their objects, slice by slice, and repairs what a
// restore of one side alone leaves behind. A session without a record ends itself (domain/device/record-check.ts): a Worker
// cannot list objects.
import { deleteRecord, listDevicesAfter, markInactive, type DeviceInRowOrder } from '../../db/devices/devices.ts';
import type { ServiceContext } from '../../context.ts';
import { log } from '../../log.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import type { Reconciled, Slice } from '../../protocol/operator.ts';
import { provisionAtBroker } from '../broker/provisioning.ts';
import { hadSession, restoreById } from '../devices/device-access.ts';
import { devicesPerSlice, runSlice } from './device-slices.ts';

const activationMs = 10 * 60_000;

export async function reconcileSlice(context: ServiceContext, { cursor }: Slice): Promise<Reconciled> {
  const records = await listDevicesAfter(context.primary(), cursor, devicesPerSlice);
  const { results, ...slice } = await runSlice(records, devicesPerSlice, (record) => compare(context, record));
  const count = (finding: Finding): number => results.filter((result) => result === finding).length;
  return { checked: records.length, inactive: count('inactive'), deleted: count('deleted'), ...slice };
}

type Finding = 'same' | 'inactive' | 'deleted';

async function compare(context: ServiceContext, record: DeviceInRowOrder): Promise<Finding> {
  const { deviceId, productKey, projectionVersion, membersVersion } = record;
  const device = callDevice(context.env, deviceId, 'idempotent');
  const session = await device.compareRecord(projectionVersion, membersVersion);
  const isKnownLoss = record.status === 0 && !hadSession(record);
  if (session === 'present' || isKnownLoss || Date.now() - record.createdAt < activationMs) return 'same';
  const db = context.primary();
  if (session === 'deleted') {
    await provisionAtBroker(context, { productKey, deviceId }, { kind: 'delete' }, Date.now());
    await deleteRecord(db, deviceId);
    log('warn', 'reconciliation: record of a deleted device removed', { deviceId });
    return 'deleted';
  }
  if (await restoreById(context, deviceId)) return 'inactive';
  await markInactive(db, record);
  log('warn', 'reconciliation: record without a session, the device has to activate again', { deviceId });
  return 'inactive';
}
