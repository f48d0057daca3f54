// Removes devices that were activated and never used: an activation costs a stranger nothing, its record and object stay.
// The object is asked, because its record may lag and knows nothing of logins at the relay.
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
  const unused = await listUnusedDevices(context.primary(), Date.now() - unusedForMs, devicesPerRun);
  await runSlice(unused, devicesPerRun, async ({ deviceId, ownerId }) => {
    const isUnused = await callDevice(context.env, deviceId, 'isUnused', 'idempotent', (device) => device.isUnused());
    if (isUnused) await deleteDevice(context, inPerson(ownerId), deviceId);
  });
}
