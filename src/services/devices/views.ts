// Status, events, properties, usage and history of a device for users who may read them: one call to its DeviceSession; no D1, except
// for a device that has no session.
import type { ServiceContext } from '../../context.ts';
import { actorOf, type Actor } from '../../domain/access.ts';
import type { Page, PageRequest } from '../../domain/pagination.ts';
import type { EventsAfter, EventView, PropertiesView, StatusView } from '../../domain/device/core/views.ts';
import type { Outcome } from '../../domain/refusal.ts';
import type { RemoteDevice } from '../../objects/calls/stubs.ts';
import type { HistoryQuery, HistoryView, UsageQuery, UsageView } from '../../protocol/http/usage.ts';
import { askDeviceAs } from './device-access.ts';

/** What `caller` reads of one device. */
export function viewsOf(context: ServiceContext, caller: Actor, deviceId: string) {
  const actor = actorOf(caller);
  const read = <T>(ask: (device: RemoteDevice) => Promise<Outcome<T>>, ifInactive?: (name: string) => T) =>
    askDeviceAs<T>(context, actor, deviceId, { action: 'readReports', ask, ifInactive });
  const inactive = { deviceId, online: false, position: null, status: 'inactive', lastOnlineAt: null } as const;
  return {
    status: () =>
      read<StatusView>(
        (device) => device.status(actor),
        (deviceName) => ({ ...inactive, deviceName }),
      ),
    events: (page: PageRequest) =>
      read<Page<EventView>>(
        (device) => device.events(actor, page),
        () => ({ list: [], total: 0, ...page }),
      ),
    eventsAfter: (after: number, count: number) =>
      read<EventsAfter>(
        (device) => device.eventsAfter(actor, after, count),
        () => ({ list: [], gap: null, next: after, last: 0 }),
      ),
    properties: () =>
      read<PropertiesView>(
        (device) => device.properties(actor),
        () => ({ list: [], positionChanges: [], lastRejected: null }),
      ),
    usage: (query: UsageQuery) => read<UsageView>((device) => device.usage(actor, query)),
    history: (query: HistoryQuery) => read<HistoryView>((device) => device.history(actor, query)),
  };
}
