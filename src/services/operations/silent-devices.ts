// Removes devices that were activated and never used: an activation costs a stranger nothing, its record and object stay.
// The object is asked, because its record may lag and knows nothing of logins at the relay.
import { readSetting, writeSetting } from '../../db/accounts/operator.ts';
import { listUnusedDevices } from '../../db/devices/devices.ts';
import { inPerson } from '../../domain/access.ts';
import { dayMs } from '../../domain/time.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import type { ServiceContext } from '../../context.ts';
import { deleteDevice } from '../devices/deletion.ts';
import { runSlice } from './device-slices.ts';

const unusedForMs = 30 * dayMs;
/** A deletion calls several objects, and the run shares an invocation with other jobs. */
const devicesPerRun = 20;

export async function deleteUnusedDevices(context: ServiceContext): Promise<void> {
  const db = context.primary();
  const saved = (await readSetting(db, 'unused_devices_after')) ?? '0 0';
  const after = saved.split(' ').map(Number) as [number, number];
  const unused = await listUnusedDevices(db, after, Date.now() - unusedForMs, devicesPerRun);
  await runSlice(unused, devicesPerRun, async ({ deviceId, ownerId }) => {
    const isUnused = await callDevice(context.env, deviceId, 'idempotent').isUnused();
    if (isUnused) await deleteDevice(context, inPerson(ownerId), deviceId);
  });
  // Devices that log in at the relay alone stay in the list: the next run goes on after them, and the one at the end begins anew.
  const last = unused.length < devicesPerRun ? undefined : unused.at(-1);
  const next = `${last?.activatedAt ?? 0} ${last?.id ?? 0}`;
  if (next !== saved) await writeSetting(db, 'unused_devices_after', next);
}
