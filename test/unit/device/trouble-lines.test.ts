// What `npm start` prints of a device that does not work, and what a crowd of them may not do to the terminal.
import { beforeEach, expect, test, vi } from 'vitest';
import { createDeviceTrouble } from '../../../dev/terminal.ts';

beforeEach(() => {
  vi.useFakeTimers();
  return () => vi.useRealTimers();
});

const refused = (deviceId: string) => ({
  level: 'info',
  event: 'device login refused',
  fields: { deviceId, reason: 'wrong_password', countInHour: 3, address: '192.168.1.7' },
});

test('a refused login and a message that was not understood are one line each', () => {
  const told: string[] = [];
  const show = createDeviceTrouble((text) => told.push(text));
  expect(show(refused('dev_1'))).toBe(true);
  const fields = { deviceId: 'dev_1', topic: 'status', reason: 'not_json', dropped: [], text: 'on\nline' };
  expect(show({ level: 'info', event: 'device message not understood', fields })).toBe(true);
  expect(show({ level: 'info', event: 'request', fields: {} })).toBe(false);
  expect(told).toEqual([
    'dev_1: login from 192.168.1.7 refused, wrong password, 3 in this hour',
    'dev_1: status not understood, not json: on line',
  ]);
});

test('of a crowd ten are shown, then how many more there were', () => {
  const told: string[] = [];
  const show = createDeviceTrouble((text) => told.push(text));
  for (let n = 0; n < 500; n += 1) expect(show(refused(`dev_${n}`))).toBe(true);
  expect(told).toHaveLength(10);
  vi.advanceTimersByTime(5_000);
  show(refused('dev_late'));
  expect(told.slice(10)).toEqual([
    '490 more lines about devices are in logs/worker.log',
    expect.stringContaining('dev_late') as string,
  ]);
});
