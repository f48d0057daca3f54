// What a device without a session answers: a registered serial that has not activated, or one whose session was lost. Its object
// knows nothing of it, so D1 is asked; no hot path comes here.
import type { Actor, DeviceAction } from '../../domain/access.ts';
import { RefusedError } from '../../domain/refusal.ts';
import type { ServiceContext } from '../../context.ts';
import { requireDevice } from './rights.ts';

/**
 * What `ask` answers; where the device has no session, what `answerOf` makes of its record, or device_not_activated.
 * @throws RefusedError device_not_found, forbidden, device_not_activated, and what `ask` throws
 */
export async function orNotActivated<T>(
  context: ServiceContext,
  actor: Actor,
  deviceId: string,
  action: DeviceAction,
  ask: () => Promise<T>,
  answerOf?: (name: string) => T,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const isAbsent =
      error instanceof RefusedError && error.refusal.kind === 'not_found' && error.refusal.what === 'device';
    if (!isAbsent) throw error;
  }
  const { device } = await requireDevice(context, actor, deviceId, action);
  if (answerOf === undefined) throw new RefusedError({ kind: 'device_not_activated', deviceId });
  return answerOf(device.name);
}
