// Slice: what a device says beyond its limit of messages. No message has an effect of its own; the last value of each
// property and the last status wait for a second and are then applied and pushed as one message, so that what is
// known of the device after a burst is true. In memory only.
import type { Slice, DeviceState } from '../core/state.ts';
import { knownProperties, propertyPostMethod, topicActions, type TopicAction } from '../../../protocol/mqtt.ts';
import type { Json } from '../../json.ts';
import { countDropped } from '../core/counts.ts';
import type { DeviceMessage } from './messages.ts';
import { maxProperties } from './properties.ts';
import { spend } from '../../token-bucket.ts';

export type CoalescedSlice = {
  properties: readonly (readonly [name: string, value: Json])[];
  reportedAtMs: number;
  status: { word: 'online' | 'offline'; atMs: number } | null;
  dueAtMs: number | null;
};

const waitMs = 1_000;

export const coalescedSlice: Slice<CoalescedSlice> = {
  initial: { properties: [], reportedAtMs: 0, status: null, dueAtMs: null },
  row: 'none',
  dueAtMs: ({ coalesced }) => coalesced.dueAtMs ?? Infinity,
  onNewOwner: 'forget',
};

export function admitMessage(state: DeviceState, atMs: number): DeviceState | undefined {
  const messages = spend(state.budgets.messages, state.settings.limits.deviceMessagesPerMinute, atMs);
  return messages && { ...state, budgets: { ...state.budgets, messages } };
}

/** For a message beyond the limit: counts it, and keeps what it says about the present. */
export function coalesce(state: DeviceState, meaning: DeviceMessage, atMs: number, nowMs: number): DeviceState {
  const counted = countDropped(state, 1, nowMs);
  const { coalesced } = state;
  const dueAtMs = coalesced.dueAtMs ?? nowMs + waitMs;
  if (meaning.kind === 'status') {
    return { ...counted, coalesced: { ...coalesced, status: { word: meaning.status, atMs }, dueAtMs } };
  }
  if (meaning.kind !== 'report') return counted;
  const merged = new Map(coalesced.properties);
  for (const [name, value] of meaning.properties) {
    // Documented properties always, as in properties.ts.
    if (merged.size < maxProperties || merged.has(name) || Object.hasOwn(knownProperties, name))
      merged.set(name, value);
  }
  return { ...counted, coalesced: { ...coalesced, properties: [...merged], reportedAtMs: atMs, dueAtMs } };
}

export function supersede(state: DeviceState, meaning: DeviceMessage): DeviceState {
  const { coalesced } = state;
  if (coalesced.dueAtMs === null) return state;
  const properties =
    meaning.kind === 'report'
      ? coalesced.properties.filter(([name]) => !meaning.properties.has(name))
      : coalesced.properties;
  const status = meaning.kind === 'status' ? null : coalesced.status;
  const isEmpty = properties.length === 0 && status === null;
  return { ...state, coalesced: isEmpty ? coalescedSlice.initial : { ...coalesced, properties, status } };
}

type CoalescedMessage = { action: TopicAction; meaning: DeviceMessage; payload: string; atMs: number };

export function coalescedMessages({ properties, reportedAtMs, status }: CoalescedSlice): CoalescedMessage[] {
  const messages: CoalescedMessage[] = [];
  if (properties.length > 0) {
    const body = { method: propertyPostMethod, id: String(reportedAtMs), params: Object.fromEntries(properties) };
    const payload = JSON.stringify({ ...body, time: reportedAtMs });
    const meaning = { kind: 'report', properties: new Map(properties) } as const;
    messages.push({ action: topicActions.propertyPost, meaning, payload, atMs: reportedAtMs });
  }
  if (status !== null) {
    const payload = JSON.stringify({ status: status.word, time: status.atMs });
    const meaning = { kind: 'status', status: status.word } as const;
    messages.push({ action: topicActions.status, meaning, payload, atMs: status.atMs });
  }
  return messages.sort((a, b) => a.atMs - b.atMs);
}
