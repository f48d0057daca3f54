// Wakes devices whose due time has passed without a word of them: the platform lost their alarm, or was away. A device that is
// woken tells D1 its next due time.
import type { ServiceContext } from '../../context.ts';
import { listOverdue, setDueAt } from '../../db/devices/devices.ts';
import { minuteMs } from '../../domain/time.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import { runSlice } from './device-slices.ts';

/** Alarms of the platform are rarely late for longer. */
const overdueAfterMs = 2 * minuteMs;
const againAfterMs = 10 * minuteMs;
/** The run shares an invocation, which may call 1 000 objects, with other jobs. */
const devicesPerRun = 100;

export async function wakeOverdueDevices(context: ServiceContext): Promise<void> {
  const db = context.primary();
  const nowMs = Date.now();
  const overdue = await listOverdue(db, nowMs - overdueAfterMs, devicesPerRun);
  await setDueAt(db, overdue, nowMs + againAfterMs);
  await runSlice(overdue, devicesPerRun, async (device) => {
    const session = callDevice(context.env, device.deviceId, 'idempotent');
    // What is due runs before, and its projection is written, because it has another version.
    const presence = await session.compareRecord(-1, device.membersVersion);
    if (presence !== 'present') await setDueAt(db, [device], null);
  });
}
