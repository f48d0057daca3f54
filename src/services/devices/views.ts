// Status, events and properties of a device for users who may read them: one call to its DeviceSession; no D1, except for a device
// that has no session.
import type { ServiceContext } from '../../context.ts';
import { actorOf, type Actor } from '../../domain/access.ts';
import type { Page, PageRequest } from '../../domain/pagination.ts';
import type { EventsAfter, EventView, PropertiesView, StatusView } from '../../domain/device/core/views.ts';
import type { Outcome } from '../../domain/refusal.ts';
import type { RemoteDevice } from '../../objects/calls/stubs.ts';
import type { HistoryQuery, HistoryView, UsageQuery, UsageView } from '../../protocol/http/usage.ts';
import { askDeviceAs } from './device-access.ts';

const action = 'readReports';

export function readUsage(context: ServiceContext, actor: Actor, deviceId: string, query: UsageQuery) {
  const ask = (device: RemoteDevice): Promise<Outcome<UsageView>> => device.usage(actorOf(actor), query);
  return askDeviceAs<UsageView>(context, actor, deviceId, { action, ask });
}

export function readHistory(context: ServiceContext, actor: Actor, deviceId: string, query: HistoryQuery) {
  const ask = (device: RemoteDevice): Promise<Outcome<HistoryView>> => device.history(actorOf(actor), query);
  return askDeviceAs<HistoryView>(context, actor, deviceId, { action, ask });
}

export function readStatus(context: ServiceContext, actor: Actor, deviceId: string): Promise<StatusView> {
  return askDeviceAs<StatusView>(context, actor, deviceId, {
    action,
    ask: (device) => device.status(actorOf(actor)),
    ifInactive: (deviceName) => {
      return { deviceId, deviceName, online: false, position: null, status: 'inactive', lastOnlineAt: null };
    },
  });
}

export function pageEvents(context: ServiceContext, actor: Actor, deviceId: string, page: PageRequest) {
  return askDeviceAs<Page<EventView>>(context, actor, deviceId, {
    action,
    ask: (device) => device.events(actor, page),
    ifInactive: () => ({ list: [], total: 0, ...page }),
  });
}

export function readEventsAfter(context: ServiceContext, actor: Actor, deviceId: string, after: number, count: number) {
  return askDeviceAs<EventsAfter>(context, actor, deviceId, {
    action,
    ask: (device) => device.eventsAfter(actor, after, count),
    ifInactive: () => ({ list: [], gap: null, next: after, last: 0 }),
  });
}

export function readProperties(context: ServiceContext, actor: Actor, deviceId: string) {
  return askDeviceAs<PropertiesView>(context, actor, deviceId, {
    action,
    ask: (device) => device.properties(actor),
    ifInactive: () => ({ list: [], positionChanges: [], lastRejected: null }),
  });
}
