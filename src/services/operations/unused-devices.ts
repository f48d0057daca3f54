// Removes devices that were activated and never used: an activation costs a stranger nothing, its record and object stay.
// The object decides by its own presence, because the record may lag.
import { listUnusedDevices } from '../../db/devices/devices.ts';
import { inPerson } from '../../domain/access.ts';
import { dayMs } from '../../domain/time.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import type { ServiceContext } from '../../context.ts';
import { deleteDevice } from '../devices/deletion.ts';
import { readStatus } from '../devices/views.ts';
import { runSlice } from './device-slices.ts';

const unusedForMs = 30 * dayMs;
/** A deletion calls several objects, and the run shares an invocation with other jobs. */
const devicesPerRun = 20;

export async function deleteUnusedDevices(context: ServiceContext): Promise<void> {
  const unused = await listUnusedDevices(context.primary(), Date.now() - unusedForMs, devicesPerRun);
  await runSlice(unused, devicesPerRun, async ({ deviceId, ownerId, projectionVersion, membersVersion }) => {
    const owner = inPerson(ownerId);
    const { online, lastOnlineAt } = await readStatus(context, owner, deviceId);
    if (!online && lastOnlineAt === null) await deleteDevice(context, owner, deviceId);
    else {
      await callDevice(context.env, deviceId, 'compareRecord', 'idempotent', (device) =>
        device.compareRecord(projectionVersion, membersVersion),
      );
    }
  });
}
