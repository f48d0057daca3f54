// Wakes devices whose due time has passed without a word of them: the platform lost their alarm, or was away. A device that is
// woken tells D1 its next due time.
import type { ServiceContext } from '../../context.ts';
import { takeOverdue } from '../../db/devices/devices.ts';
import { minuteMs } from '../../domain/time.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import { runSlice } from './device-slices.ts';

/** Alarms of the platform are rarely late for longer. */
const overdueAfterMs = 2 * minuteMs;
const againAfterMs = 10 * minuteMs;
/** The run shares an invocation, which may call 1 000 objects, with other jobs. */
const devicesPerRun = 100;

export async function wakeOverdueDevices(context: ServiceContext): Promise<void> {
  const nowMs = Date.now();
  const further = { againAtMs: nowMs + againAfterMs, limit: devicesPerRun };
  const overdue = await takeOverdue(context.primary(), nowMs - overdueAfterMs, further);
  // What is due runs before, and its projection is written, because it has another version.
  await runSlice(overdue, devicesPerRun, ({ deviceId, membersVersion }) =>
    callDevice(context.env, deviceId, 'idempotent').compareRecord(-1, membersVersion),
  );
}
