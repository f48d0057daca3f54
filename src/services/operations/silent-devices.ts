// The minute's job with devices of which nobody hears. Those that were activated and never used are removed: an activation costs a
// stranger nothing, its record and object stay. Those whose due time has passed are woken: the platform lost their alarm, or was away.
import { readSetting, writeSetting } from '../../db/accounts/operator.ts';
import { listUnusedDevices, takeOverdue } from '../../db/devices/devices.ts';
import { inPerson } from '../../domain/access.ts';
import { dayMs, minuteMs } from '../../domain/time.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import type { ServiceContext } from '../../context.ts';
import { deleteDevice } from '../devices/devices.ts';
import { devicesPerSlice, runSlice } from './device-slices.ts';

const unusedForMs = 30 * dayMs;
/** A deletion calls several objects, and the run shares an invocation with other jobs. */
const deletionsPerRun = 20;

/** Alarms of the platform are rarely late for longer. */
const overdueAfterMs = 2 * minuteMs;
const againAfterMs = 10 * minuteMs;

/** The object is asked, because its record may lag and knows nothing of logins at the relay. */
export async function deleteUnusedDevices(context: ServiceContext): Promise<void> {
  const db = context.primary();
  const saved = (await readSetting(db, 'unused_devices_after')) ?? '0 0';
  const after = saved.split(' ').map(Number) as [number, number];
  const unused = await listUnusedDevices(db, after, Date.now() - unusedForMs, deletionsPerRun);
  await runSlice(unused, deletionsPerRun, async ({ deviceId, ownerId }) => {
    const isUnused = await callDevice(context.env, deviceId, 'idempotent').isUnused();
    if (isUnused) await deleteDevice(context, inPerson(ownerId), deviceId);
  });
  // Devices that log in at the relay alone stay in the list: the next run goes on after them, and the one at the end begins anew.
  const last = unused.length < deletionsPerRun ? undefined : unused.at(-1);
  const next = `${last?.activatedAt ?? 0} ${last?.id ?? 0}`;
  if (next !== saved) await writeSetting(db, 'unused_devices_after', next);
}

/** A device that is woken tells D1 its next due time. */
export async function wakeOverdueDevices(context: ServiceContext): Promise<void> {
  const nowMs = Date.now();
  const further = { againAtMs: nowMs + againAfterMs, limit: devicesPerSlice };
  const overdue = await takeOverdue(context.primary(), nowMs - overdueAfterMs, further);
  // What is due runs before, and its projection is written, because it has another version.
  await runSlice(overdue, devicesPerSlice, ({ deviceId, membersVersion }) =>
    callDevice(context.env, deviceId, 'idempotent').compareRecord(-1, membersVersion),
  );
}
