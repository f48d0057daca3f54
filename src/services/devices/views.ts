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
  const readOr = <T>(none: T, ask: (device: RemoteDevice) => Promise<Outcome<T>>) => read<T>(ask, () => none);
  const inactive = { deviceId, online: false, position: null, status: 'inactive', lastOnlineAt: null } as const;
  return {
    status: () =>
      read<StatusView>(
        (device) => device.status(actor),
        (deviceName) => ({ ...inactive, deviceName }),
      ),
    events: (page: PageRequest) =>
      readOr<Page<EventView>>({ list: [], total: 0, ...page }, (device) => device.events(actor, page)),
    eventsAfter: (after: number, count: number) =>
      readOr<EventsAfter>({ list: [], gap: null, next: after, last: 0 }, (device) =>
        device.eventsAfter(actor, after, count),
      ),
    properties: () =>
      readOr<PropertiesView>({ list: [], positionChanges: [], lastRejected: null }, (device) =>
        device.properties(actor),
      ),
    usage: (query: UsageQuery) => read<UsageView>((device) => device.usage(actor, query)),
    history: (query: HistoryQuery) => read<HistoryView>((device) => device.history(actor, query)),
  };
}
