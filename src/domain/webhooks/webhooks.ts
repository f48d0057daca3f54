// What a device tells a webhook endpoint: numbered events, and which of them an endpoint wants. The device's object and the
// endpoint's object both use it. No secret or attempt is in here.
import type { EventType, WebhookEnd } from '../../protocol/vocabulary.ts';

/** `productKey`, `deviceIds`: null stands for every product, every device. Disabled: events wait until its user enables it again. */
export type WebhookFilter = {
  webhookId: string;
  types: EventType[];
  productKey: string | null;
  deviceIds: string[] | null;
  disabledBecause: WebhookEnd | null;
};

/** What its user sees of it. */
export type Webhook = WebhookFilter & { url: string; createdAtMs: number };

/** `number` counts the events of one device, without holes. */
export type OutgoingEvent = { number: number; type: EventType; time: number; data: Record<string, unknown> };

/** Numbers of events that the ring no longer has; both are included. */
export type EventGap = { from: number; to: number };

/**
 * `upTo`: the receiver has the events up to this number. `laterAtMs`: call again then. `failures`: how often in a row the receiver
 * did not take the next event. None of them: the webhook is disabled, and the user's directory tells the device. `gone`: the
 * webhook is deleted, and its cursor may be dropped.
 */
export type TakeAnswer = { upTo?: number; laterAtMs?: number; failures?: number } | 'gone';

export const eventsPerTake = 50;
/** Events that a device's object keeps. */
export const eventRingSize = 200;

/** What devices have to know of it. */
export function filterOf({ webhookId, types, productKey, deviceIds, disabledBecause }: Webhook): WebhookFilter {
  return { webhookId, types, productKey, deviceIds, disabledBecause };
}

export function wantsDevice(
  { productKey, deviceIds }: WebhookFilter,
  device: { productKey: string; deviceId: string },
) {
  return (productKey ?? device.productKey) === device.productKey && (deviceIds?.includes(device.deviceId) ?? true);
}
