// Status, events and properties of a device for who may read them: one call to its DeviceSession; no D1.
import type { Actor } from '../domain/access.ts';
import { RefusedError, unwrap, type Outcome } from '../domain/refusal.ts';
import type { Page, PageRequest } from '../domain/pagination.ts';
import { isDeviceId } from '../domain/topics.ts';
import type { EventView, PropertiesView } from '../domain/device/views.ts';
import { callDevice, type RemoteDevice } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

/** @throws RefusedError device_not_found, forbidden */
export function readStatus(context: ServiceContext, actor: Actor, deviceId: string) {
  return askDevice(context, deviceId, 'status', (device) => device.status(actor));
}

/** @throws RefusedError device_not_found, forbidden */
export function pageEvents(context: ServiceContext, actor: Actor, deviceId: string, page: PageRequest) {
  return askDevice<Page<EventView>>(context, deviceId, 'events', (device) => device.events(actor, page));
}

/** @throws RefusedError device_not_found, forbidden */
export function readProperties(context: ServiceContext, actor: Actor, deviceId: string) {
  return askDevice<PropertiesView>(context, deviceId, 'properties', (device) => device.properties(actor));
}

/** An idempotent call to a device's object. @throws RefusedError device_not_found, and what the object refuses */
export async function askDevice<T>(
  { env }: ServiceContext,
  deviceId: string,
  operation: string,
  ask: (device: RemoteDevice) => Promise<Outcome<T>>,
): Promise<T> {
  return unwrap<T>(await callDevice(env, requireDeviceId(deviceId), operation, 'idempotent', ask));
}

/** @throws RefusedError device_not_found for text that is no device id: each would wake an object of its own. */
export function requireDeviceId(deviceId: string): string {
  if (!isDeviceId(deviceId)) throw new RefusedError({ kind: 'not_found', what: 'device', id: deviceId });
  return deviceId;
}
