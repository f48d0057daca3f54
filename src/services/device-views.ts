// Status, events and properties of a device for its owner: one call to its DeviceSession; no D1.
import { RefusedError, unwrap } from '../domain/refusal.ts';
import type { Page, PageRequest } from '../domain/pagination.ts';
import { isDeviceId } from '../domain/topics.ts';
import type { EventView, PropertiesView } from '../domain/device/views.ts';
import { callDevice } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

/** @throws RefusedError device_not_found, forbidden */
export async function readStatus({ env }: ServiceContext, userId: number, deviceId: string) {
  return unwrap(
    await callDevice(env, requireDeviceId(deviceId), 'status', 'repeatable', (device) => device.status(userId)),
  );
}

/** @throws RefusedError device_not_found, forbidden */
export async function pageEvents(
  { env }: ServiceContext,
  userId: number,
  deviceId: string,
  page: PageRequest,
): Promise<Page<EventView>> {
  return unwrap<Page<EventView>>(
    await callDevice(env, requireDeviceId(deviceId), 'events', 'repeatable', (device) => device.events(userId, page)),
  );
}

/** @throws RefusedError device_not_found, forbidden */
export async function readProperties(
  { env }: ServiceContext,
  userId: number,
  deviceId: string,
): Promise<PropertiesView> {
  return unwrap<PropertiesView>(
    await callDevice(env, requireDeviceId(deviceId), 'properties', 'repeatable', (device) => device.properties(userId)),
  );
}

/** @throws RefusedError device_not_found for text that is no device id: each would wake an object of its own. */
export function requireDeviceId(deviceId: string): string {
  if (!isDeviceId(deviceId)) throw new RefusedError({ kind: 'not_found', what: 'device', id: deviceId });
  return deviceId;
}
