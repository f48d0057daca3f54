// What each event answers where there is no device: never provisioned, or deleted. Changes nothing.
import { refuse } from '../refusal.ts';
import type { DeviceEvent, EventKind, Ingested, Results } from './events.ts';

const unknownDevice = { result: 'rejected', reason: 'device_not_found' } as const;

export function resultOfAbsent(event: DeviceEvent): Results[EventKind] {
  switch (event.kind) {
    case 'provisioned':
    case 'login_attempted':
    case 'edge_connected':
    case 'relay_message_received':
    case 'command_requested':
    case 'cancel_requested':
    case 'subscription_requested':
    case 'administered':
    case 'credentials_replaced':
    case 'member_joined':
    case 'member_changed':
    case 'member_removed':
    case 'invitation_changed':
    case 'released':
    case 'transfer_offered':
    case 'transfer_withdrawn':
    case 'transfer_answered':
    case 'pairing_window_set':
    case 'guest_link_made':
    case 'guest_link_revoked':
    case 'guest_link_used':
      return refuse({ kind: 'not_found', what: 'device' });
    case 'messages_received':
      return rejectAll(event.messages.length);
    case 'edge_packets_received':
      return { results: event.messages.map(() => unknownDevice), subscriptions: [], generations: [], readers: [] };
    case 'edge_ended':
    case 'edge_checked':
    case 'connection_reported':
    case 'messages_dropped':
    case 'message_put_aside':
    case 'publication_ended':
    case 'subscription_ended':
    case 'members_written':
    case 'subscriptions_ended':
    case 'product_changed':
    case 'deleted':
    case 'announcement_ended':
    case 'projection_ended':
    case 'record_checked':
    case 'record_compared':
    case 'record_restored':
    case 'alarm_fired':
      return null;
  }
}

export function rejectAll(count: number): Ingested {
  const others = Array.from({ length: count }, (_, position) => ({ ...unknownDevice, position }));
  return { others, subscriptions: [], generations: [], readers: [] };
}
