// Status, events and properties of a device for who may read them: one call to its DeviceSession; no D1, except for one that
// has no session.
import { actorOf, type Actor } from '../../domain/access.ts';
import { RefusedError, unwrap, type Outcome } from '../../domain/refusal.ts';
import type { Page, PageRequest } from '../../domain/pagination.ts';
import { isDeviceId } from '../../domain/topics.ts';
import type { EventView, PropertiesView, StatusView } from '../../domain/device/core/views.ts';
import { callDevice, type RemoteDevice } from '../../objects/calls/stubs.ts';
import type { ServiceContext } from '../../context.ts';
import { restoreById } from './lost-sessions.ts';
import { orNotActivated } from './not-activated.ts';

/** @throws RefusedError device_not_found, forbidden */
export function readStatus(context: ServiceContext, actor: Actor, deviceId: string) {
  const ask = () => askDevice<StatusView>(context, deviceId, 'status', (device) => device.status(actorOf(actor)));
  return orNotActivated(context, actor, deviceId, 'readReports', ask, (deviceName) => {
    return { deviceId, deviceName, online: false, position: null, status: 'inactive' as const, lastOnlineAt: null };
  });
}

/** @throws RefusedError device_not_found, forbidden */
export function pageEvents(context: ServiceContext, actor: Actor, deviceId: string, page: PageRequest) {
  const ask = () => askDevice<Page<EventView>>(context, deviceId, 'events', (device) => device.events(actor, page));
  return orNotActivated(context, actor, deviceId, 'readReports', ask, () => ({ list: [], total: 0, ...page }));
}

/** @throws RefusedError device_not_found, forbidden */
export function readProperties(context: ServiceContext, actor: Actor, deviceId: string) {
  const ask = () => askDevice<PropertiesView>(context, deviceId, 'properties', (device) => device.properties(actor));
  return orNotActivated(context, actor, deviceId, 'readReports', ask, () => ({
    list: [],
    positionChanges: [],
    lastRejected: null,
  }));
}

/**
 * An idempotent call to a device's object. One whose session was lost gets it back first.
 * @throws RefusedError device_not_found, and what the object refuses
 */
export async function askDevice<T>(
  context: ServiceContext,
  deviceId: string,
  operation: string,
  ask: (device: RemoteDevice) => Promise<Outcome<T>>,
): Promise<T> {
  const call = () => callDevice(context.env, requireDeviceId(deviceId), operation, 'idempotent', ask);
  const outcome = await call();
  const isAbsent = !outcome.ok && outcome.refusal.kind === 'not_found' && outcome.refusal.what === 'device';
  return unwrap<T>(isAbsent && (await restoreById(context, deviceId)) ? await call() : outcome);
}

/** @throws RefusedError device_not_found for text that is no device id: each would wake an object of its own. */
export function requireDeviceId(deviceId: string): string {
  if (!isDeviceId(deviceId)) throw new RefusedError({ kind: 'not_found', what: 'device', id: deviceId });
  return deviceId;
}
