// Status view and commands: the hot paths. One call to the device's session, which knows its owner; no D1.
import { parseControl } from '../domain/control-command.ts';
import { ServiceError, unwrap } from '../domain/errors.ts';
import { isDeviceId } from '../domain/topics.ts';
import { deviceSession } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

/** @throws ServiceError device_not_found, forbidden */
export async function readStatus({ env }: ServiceContext, userId: number, deviceId: string) {
  return unwrap(await session(env, deviceId).status(userId));
}

/**
 * Answers when the broker has the command.
 * @throws ServiceError no_control_params, invalid_control_params, device_not_found, forbidden, device_disabled,
 *   broker_unavailable (then it will not be delivered later)
 */
export async function controlDevice({ env }: ServiceContext, userId: number, deviceId: string, body: unknown) {
  const stub = session(env, deviceId);
  const params = unwrap(parseControl(body));
  const { commandId, deviceOnline } = unwrap(await stub.command(userId, params));
  return { message: 'command_sent' as const, commandId, deviceOnline };
}

function session(env: Env, deviceId: string) {
  // Names that cannot be a device's would each wake an object of their own.
  if (!isDeviceId(deviceId)) throw new ServiceError('device_not_found');
  return deviceSession(env, deviceId);
}
