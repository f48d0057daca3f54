// What a device's owner reads of it: views over the session's state. Changes nothing and reads no D1.
import { describeStatus } from '../domain/device-status.ts';
import type { DeviceStatusText } from '../protocol/vocabulary.ts';
import { offsetOf, type Page, type PageRequest } from '../domain/pagination.ts';
import type { PresenceRules } from '../domain/presence.ts';
import { positionSchema, type Position } from '../protocol/mqtt.ts';
import type { DeviceState } from './device-state.ts';
import type { RecordedTransition } from './device-storage.ts';

export type StatusView = {
  deviceId: string;
  deviceName: string;
  online: boolean;
  position: Position | null;
  status: DeviceStatusText;
  lastOnlineAt: string | null;
};

export type PropertiesView = {
  /** Values are JSON; the type of a call between objects cannot say so. */
  list: { name: string; value: unknown; time: string }[];
  positionChanges: { position: Position; time: string }[];
};

export type EventView = Omit<RecordedTransition, 'time'> & { time: string };

/** The status view of interface 2.6. */
export function viewStatus({ record, live }: DeviceState, rules: PresenceRules): StatusView {
  const { isOnline, isSessionOpen, lastOnlineAtMs } = live.presence;
  const position = positionSchema.safeParse(live.properties.find(([name]) => name === 'position')?.[1]);
  // A session that the broker still holds is known to be online this very moment.
  const isKnownNow = isOnline && isSessionOpen && rules.reportsConnections;
  const seenAtMs = isKnownNow ? Date.now() : lastOnlineAtMs;
  return {
    deviceId: record.deviceId,
    deviceName: record.name,
    online: isOnline && !record.isDisabled,
    position: position.success ? position.data : null,
    status: describeStatus(isOnline ? 1 : 2, record.isDisabled).status,
    lastOnlineAt: seenAtMs === null ? null : toIso(seenAtMs),
  };
}

export function viewEvents({ storage }: DeviceState, page: PageRequest): Page<EventView> {
  const events = storage.listTransitions().map((transition) => ({ ...transition, time: toIso(transition.time) }));
  return pageOf(events, page);
}

/** Times are of the arrival of the report that brought the value. */
export function viewProperties({ live, storage }: DeviceState): PropertiesView {
  return {
    list: live.properties.map(([name, value, arrivedAtMs]) => ({ name, value, time: toIso(arrivedAtMs) })),
    positionChanges: storage.listPositionChanges().map(({ position, time }) => ({ position, time: toIso(time) })),
  };
}

export function pageOf<T>(all: T[], page: PageRequest): Page<T> {
  const start = offsetOf(page);
  return { list: all.slice(start, start + page.size), total: all.length, ...page };
}

function toIso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
