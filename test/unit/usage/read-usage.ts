// A device of which usage is read on the core, as its object reads it. Asserts nothing.
import { viewUsage } from '../../../src/domain/device/usage/views.ts';
import { defaultNoticeRules } from '../../../src/domain/notices.ts';
import { unwrap } from '../../../src/domain/refusal.ts';
import type { UsageQuery } from '../../../src/protocol/http/usage.ts';
import type { CoreDevice } from '../device/core-device.ts';

export function setZone(device: CoreDevice, zone: string): void {
  device.webhooks = { isComplete: true, list: [], rules: new Map([[1, { ...defaultNoticeRules, zone }]]) };
  device.run({ kind: 'webhooks_changed' });
}

/** @param zone of days without a row */
export function read(device: CoreDevice, query: Partial<UsageQuery> = {}, zone = 'UTC') {
  const daysIn = (first: number, last: number) => device.days.filter(({ day }) => day >= first && day <= last);
  return unwrap(viewUsage(device.state, { step: 'day', ...query }, daysIn, zone, device.nowMs));
}
