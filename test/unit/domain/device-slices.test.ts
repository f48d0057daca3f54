// A slice of many devices: each is tried, and the cursor says where the next slice begins.
import { expect, it, vi } from 'vitest';
import { runSlice } from '../../../src/services/operations/device-slices.ts';
import type { DeviceInRowOrder } from '../../../src/db/devices/devices.ts';

const devicesOf = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: index + 11, deviceId: `dev_${index}` }) as DeviceInRowOrder);

it('goes on after the last device of a full slice, and ends with a smaller one', async () => {
  const act = ({ id }: DeviceInRowOrder) => Promise.resolve(id);
  const full = await runSlice(devicesOf(45), 45, act);
  expect(full).toMatchObject({ failed: 0, cursor: 55 });
  expect(full.results).toHaveLength(45);
  expect(await runSlice(devicesOf(44), 45, act)).toMatchObject({ cursor: null });
  expect(await runSlice([], 45, act)).toEqual({ results: [], failed: 0, cursor: null });
});

it('counts a device that fails, and tries all others', async () => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
  const act = ({ id }: DeviceInRowOrder) => (id === 12 ? Promise.reject(new Error('away')) : Promise.resolve(id));
  expect(await runSlice(devicesOf(3), 3, act)).toEqual({ results: [11, 13], failed: 1, cursor: 13 });
});
