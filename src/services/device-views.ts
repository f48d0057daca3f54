// What is true of a device now, and was lately, for its owner. One call to the device's session; no D1.
import { ServiceError, unwrap } from '../domain/errors.ts';
import type { Page, PageRequest } from '../domain/pagination.ts';
import { isDeviceId } from '../domain/topics.ts';
import type { EventView, PropertiesView } from '../durable/device-views.ts';
import { deviceSession } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

/** @throws ServiceError device_not_found, forbidden */
export async function readStatus({ env }: ServiceContext, userId: number, deviceId: string) {
  return unwrap(await requireSession(env, deviceId).status(userId));
}

/** @throws ServiceError device_not_found, forbidden */
export async function pageEvents(
  { env }: ServiceContext,
  userId: number,
  deviceId: string,
  page: PageRequest,
): Promise<Page<EventView>> {
  return unwrap<Page<EventView>>(await requireSession(env, deviceId).events(userId, page));
}

/** @throws ServiceError device_not_found, forbidden */
export async function readProperties(
  { env }: ServiceContext,
  userId: number,
  deviceId: string,
): Promise<PropertiesView> {
  return unwrap<PropertiesView>(await requireSession(env, deviceId).properties(userId));
}

/** @throws ServiceError device_not_found for names that cannot be a device's: each would wake an object of its own. */
export function requireSession(env: Env, deviceId: string) {
  if (!isDeviceId(deviceId)) throw new ServiceError('device_not_found');
  return deviceSession(env, deviceId);
}
