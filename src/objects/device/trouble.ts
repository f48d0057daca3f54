// Log lines for the maker of a device: a message that is not used, a refused login. A few a minute for each device, however
// many there are; all that is kept of them is in the device's properties and events. Decides and keeps nothing else.
import type { DeviceState } from '../../domain/device/core/state.ts';
import { log } from '../../log.ts';
import { rejectedMessageEvent } from '../../protocol/log-events.ts';

const lineEveryMs = 10_000;

/** @param showsText whether a line may hold what the device sent */
export function createTroubleLog(deviceId: string, showsText: boolean) {
  const linedAtMs = new Map<string, number>();
  const line = (event: string, fields: { reason: string } & Record<string, unknown>, nowMs: number): void => {
    const name = `${event} ${fields.reason}`;
    if (nowMs - (linedAtMs.get(name) ?? -Infinity) < lineEveryMs) return;
    linedAtMs.set(name, nowMs);
    log('info', event, { deviceId, ...fields });
  };
  return (before: DeviceState, { lastRejected, counts }: DeviceState, nowMs: number): void => {
    for (const entry of counts) {
      if (before.counts.includes(entry)) continue;
      const { status, reason } = entry;
      if (status === 'message_rejected') {
        const read = lastRejected !== before.lastRejected && lastRejected?.reason === reason ? lastRejected : undefined;
        const text = showsText ? read?.text : undefined;
        line(rejectedMessageEvent, { topic: entry.detail, reason, dropped: read?.dropped, text }, nowMs);
      } else if (status === 'flooded') line(rejectedMessageEvent, { reason }, nowMs);
      else if (status === 'login_refused')
        line('device login refused', { reason, countInHour: entry.count, address: entry.address }, nowMs);
    }
  };
}
