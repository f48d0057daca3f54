// What is told of a device's firmware: to those who may read the device, and to a campaign. Changes nothing.
import type { DeviceFirmware } from '../../../protocol/http/firmware.ts';
import type { UpdateState } from '../../../protocol/vocabulary.ts';
import { dayMs, toIso } from '../../time.ts';
import type { Transition } from '../core/history.ts';
import type { DeviceState } from '../core/state.ts';
import { endsAtMs } from './updates.ts';

export function viewFirmware(state: DeviceState): DeviceFirmware {
  const { installed, update } = state.firmware;
  const endsAt = endsAtMs(state);
  const viewInstalled = ({ atMs, ...inform }: NonNullable<typeof installed>) => ({
    ...inform,
    reportedAt: toIso(atMs),
  });
  return {
    installed: installed && viewInstalled(installed),
    update: update && {
      campaignId: update.campaignId,
      version: update.version,
      formerVersion: update.formerVersion,
      state: update.state,
      reason: update.reason,
      error: update.error,
      percent: update.percent,
      security: update.isSecurity,
      endsAt: Number.isFinite(endsAt) ? toIso(endsAt) : null,
      steps: Object.entries(update.reachedAtMs)
        .sort(([, one], [, other]) => one - other)
        .map(([state, atMs]) => ({ state: state as UpdateState, time: toIso(atMs) })),
    },
  };
}

/** The part of the last 14 days for which the device was offline, by its transitions, newest first. */
export function shareAway(transitions: readonly Transition[], nowMs: number): number {
  const beginMs = nowMs - 14 * dayMs;
  let away = 0;
  let untilMs = nowMs;
  let fromMs = nowMs;
  for (const { status, time } of transitions) {
    fromMs = Math.max(time, beginMs);
    if (status === 'offline') away += Math.max(0, untilMs - fromMs);
    untilMs = fromMs;
    if (fromMs === beginMs) break;
  }
  return fromMs < nowMs ? away / (nowMs - fromMs) : 0;
}
