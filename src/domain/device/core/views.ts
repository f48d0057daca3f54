// What users read of a device: all of it, or what the device did without who shares it. Queries on the state and on the
// histories that storage has; they change nothing.
import type { z } from 'zod';
import type * as shapes from '../../../protocol/http/devices.ts';
import type { runPageSchema } from '../../../protocol/http/times.ts';
import { positionSchema, propertyPostMethod, topicActions, type TopicAction } from '../../../protocol/mqtt.ts';
import { seesSharing, type Actor } from '../../access.ts';
import type { EventGap, OutgoingEvent } from '../../webhooks/webhooks.ts';
import { describeStatus } from '../../device-status.ts';
import { offsetOf, type Page, type PageRequest } from '../../pagination.ts';
import { toIso } from '../../time.ts';
import type { LastRejected } from '../messages/messages.ts';
import { measurement, type PropertiesSlice } from '../messages/properties.ts';
import { isActivated } from '../ownership/credentials.ts';
import { viewLease } from '../times/lease.ts';
import { viewActual } from '../witness/witness.ts';
import { runSize, viewRun, type Run } from '../times/ledger.ts';
import type { GuestEntry, JournalEntry, Transition } from './history.ts';
import { privateTypes } from './outgoing.ts';
import type { DeviceState } from './state.ts';

export type StatusView = z.infer<typeof shapes.statusViewSchema>;
export type PropertiesView = z.infer<typeof shapes.devicePropertiesSchema>;

export type PresentView = {
  productKey: string;
  /** Bodies are JSON; the type of a call between objects cannot say so. */
  messages: { action: TopicAction; body: unknown }[];
};

export type EventView = Extract<z.infer<typeof shapes.deviceEventsSchema>, Page<unknown>>['list'][number];

export function viewStatus(state: DeviceState, nowMs: number): StatusView {
  const { identity, presence, properties, credentials } = state;
  const lease = viewLease(state);
  const { isOnline, lastOnlineAtMs } = presence.connection;
  const position = positionSchema.safeParse(properties.values.find(([name]) => name === 'position')?.[1]);
  return {
    deviceId: identity.deviceId,
    deviceName: identity.name,
    online: isOnline && !identity.isDisabled,
    position: position.success ? position.data : null,
    status: describeStatus(isOnline ? 1 : isActivated(credentials) ? 2 : 0, identity.isDisabled).status,
    lastOnlineAt: toIso(lastOnlineAtMs),
    ...(lease && { lease }),
    ...(state.witness.settings && { actual: viewActual(state, nowMs) }),
  };
}

/** The messages with which the device would say all of it anew. */
export function viewPresent({ identity, presence, properties }: DeviceState, nowMs: number): PresentView {
  const { isOnline, onlineSinceMs, offlineAtMs } = presence.connection;
  const status = isOnline && !identity.isDisabled ? 'online' : 'offline';
  const said = {
    action: topicActions.status,
    body: { status, time: (isOnline ? onlineSinceMs : offlineAtMs) ?? nowMs },
  };
  const { productKey } = identity;
  // Not as the last one, if newer ones may have been pushed.
  const values = properties.values.filter((entry) => savedAtOf(properties, entry) === undefined);
  if (values.length === 0) return { productKey, messages: [said] };
  const params = Object.fromEntries(values.map(([name, value]) => [name, value]));
  const time = Math.max(...values.map(([, , arrivedAtMs]) => arrivedAtMs));
  const body = { method: propertyPostMethod, id: 'snapshot', params, time };
  return { productKey, messages: [said, { action: topicActions.propertyPost, body }] };
}

/** `address` is left out for an actor without the right `readSharing`. */
export function viewEvents(
  state: DeviceState,
  stored: { transitions: Transition[]; journal: JournalEntry[]; guests: GuestEntry[] },
  page: PageRequest,
  actor: Actor,
) {
  const isWhole = seesSharing(state, actor);
  const { transitions: past, journal, guests: uses } = isWhole ? stored : { ...stored, journal: [], guests: [] };
  const { waiting } = state.presence;
  const transitions = waiting === null ? past : [waiting.entry, ...past];
  const counted = state.counts.map(({ lastAtMs: time, ...fact }) => {
    const { address, ...shown } = { address: undefined, detail: '', ...fact, time };
    return isWhole && address !== undefined ? { ...shown, address } : shown;
  });
  const guests = uses.map(({ reason, linkId, time, address }) => {
    return { status: 'guest_link', reason, detail: linkId, time, address } as const;
  });
  const noted = journal.map((entry) => {
    return 'email' in entry
      ? ({ status: 'sharing', detail: '', ...entry } as const)
      : ({ status: 'ownership', detail: '', ...entry } as const);
  });
  // Transitions keep their order: an end that was reported late stands above the beginning that was known before.
  const events = mergeByTime(mergeByTime(mergeByTime(transitions, counted), noted), guests);
  return pageOf(
    events.map((event): EventView => ({ ...event, time: toIso(event.time) })),
    page,
  );
}

export type EventsAfter = z.infer<typeof shapes.eventsAfterSchema>;

/** As a webhook of the actor is told them. */
export function viewEventsAfter(
  state: DeviceState,
  { events, gap }: { events: readonly OutgoingEvent[]; gap: EventGap | null },
  actor: Actor,
): EventsAfter {
  const isWhole = seesSharing(state, actor);
  const seen = events.filter(({ type }) => isWhole || !privateTypes.includes(type));
  return {
    list: seen.map((event) => ({ ...event, time: toIso(event.time) })),
    gap,
    next: events.at(-1)?.number ?? gap?.to ?? state.outgoing.last,
    last: state.outgoing.last,
  };
}

export function viewProperties({ properties, lastRejected }: DeviceState): PropertiesView {
  const positionChanges = properties.positions.toReversed();
  return {
    list: properties.values.map((entry) => {
      const [name, value, arrivedAtMs] = entry;
      const savedAt = savedAtOf(properties, entry);
      return { name, value, time: toIso(arrivedAtMs), ...(savedAt !== undefined && { savedAt }) };
    }),
    positionChanges: positionChanges.map(({ position, time }) => ({ position, time: toIso(time) })),
    lastRejected: lastRejected && viewRejected(lastRejected),
  };
}

function savedAtOf({ measurementSavedAtMs }: PropertiesSlice, [name]: PropertiesSlice['values'][number]) {
  return name === measurement && measurementSavedAtMs !== null ? toIso(measurementSavedAtMs) : undefined;
}

function viewRejected({ action: topic, reason, dropped, text, atMs }: LastRejected) {
  return { topic, reason, dropped: [...dropped], text, time: toIso(atMs) };
}

export type RunPage = z.infer<typeof runPageSchema>;

/** Open ones first, then the newest in storage. */
export function viewRuns({ runs }: DeviceState, stored: Run[], page: PageRequest): RunPage {
  const running = runs.running.toReversed().map((run): Run => ({ ...run, outcome: 'running', reason: null }));
  return { ...pageOf([...running, ...stored].map(viewRun), page), dropped: Math.max(0, runs.entries - runSize) };
}

export function pageOf<T>(all: T[], page: PageRequest): Page<T> {
  const start = offsetOf(page);
  return { list: all.slice(start, start + page.size), total: all.length, ...page };
}

function mergeByTime<One extends { time: number }, Other extends { time: number }>(
  ones: readonly One[],
  others: readonly Other[],
): (One | Other)[] {
  const merged: (One | Other)[] = [...ones];
  for (const other of others) {
    const index = merged.findIndex(({ time }) => time <= other.time);
    merged.splice(index < 0 ? merged.length : index, 0, other);
  }
  return merged;
}
