// Work on many devices: a slice of them at each request or run, some at once. Decides nothing about a device.
import type { DeviceInRowOrder } from '../../db/devices/devices.ts';
import { describeError, log } from '../../log.ts';

const atOnce = 20;

/** One invocation may call 1 000 objects; a deletion calls several for each device. */
export const devicesPerSlice = 100;

export async function runSlice<T, Device extends Pick<DeviceInRowOrder, 'id' | 'deviceId'>>(
  devices: readonly Device[],
  size: number,
  act: (device: Device) => Promise<T>,
) {
  const results: T[] = [];
  let failed = 0;
  for (let at = 0; at < devices.length; at += atOnce) {
    const attempts = devices.slice(at, at + atOnce).map(async (device) => {
      try {
        results.push(await act(device));
      } catch (error) {
        failed += 1;
        log('warn', 'device of a slice failed', { deviceId: device.deviceId, ...describeError(error) });
      }
    });
    await Promise.all(attempts);
  }
  return { results, failed, cursor: devices.length < size ? null : (devices.at(-1)?.id ?? null) };
}
