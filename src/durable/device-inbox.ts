// What a device's messages do to its state: each once in effect, in order. Pushes nothing to subscribers (the uplink
// does, a batch at a time), and changes nothing for a message that says nothing new.
import { fingerprint } from '../domain/fingerprint.ts';
import {
  interpretMessage,
  isMeasurement,
  maxPayloadBytes,
  mergeProperties,
  type DeviceMessage,
  type Json,
} from '../domain/property-report.ts';
import { isOvertaken, isRecent, isTaken, noteRedelivered, take, takeRepeated } from '../domain/uplink-marks.ts';
import { positionSchema, topicActions, type Position, type TopicAction } from '../protocol/mqtt.ts';
import type { DeviceCommands } from './device-commands.ts';
import type { DevicePresence } from './device-presence.ts';
import type { DeviceState } from './device-state.ts';

export type SessionMessage = {
  seq: number;
  action: TopicAction;
  payload: string;
  isDup: boolean;
  isRetained: boolean;
  /** The bridge's moment of arrival, in the service's clock. */
  receivedAtMs: number;
};

/** Messages as they travel to the session: an object each would have its members named and looked up each time. */
export type MessageColumns = {
  seqs: number[];
  actions: TopicAction[];
  payloads: string[];
  receivedAtMs: number[];
  /** Positions of the few that have the flag. */
  dups: number[];
  retained: number[];
};

export function packMessages(messages: readonly SessionMessage[]): MessageColumns {
  const positionsOf = (isMarked: (message: SessionMessage) => boolean): number[] =>
    messages.flatMap((message, position) => (isMarked(message) ? position : []));
  return {
    seqs: messages.map(({ seq }) => seq),
    actions: messages.map(({ action }) => action),
    payloads: messages.map(({ payload }) => payload),
    receivedAtMs: messages.map(({ receivedAtMs }) => receivedAtMs),
    dups: positionsOf(({ isDup }) => isDup),
    retained: positionsOf(({ isRetained }) => isRetained),
  };
}

export function unpackMessages(columns: MessageColumns): SessionMessage[] {
  const { seqs, actions, payloads, receivedAtMs, dups, retained } = columns;
  return seqs.map((seq, position) => ({
    seq,
    action: actions[position] ?? topicActions.propertyPost,
    payload: payloads[position] ?? '',
    receivedAtMs: receivedAtMs[position] ?? 0,
    isDup: dups.includes(position),
    isRetained: retained.includes(position),
  }));
}

/**
 * `accepted` is in effect now, `again` was before, `repeated` was before under another number, `ignored` has none: an
 * echo of the service, or retained. What comes again says once more why it was rejected: the first answer may be lost.
 */
export type MessageResult =
  | { result: 'accepted' | 'repeated' | 'ignored' }
  | { result: 'again'; reason?: string }
  | { result: 'rejected'; reason: string };

/** Measurements never rest: alone they are written this often, and otherwise with whatever else is. */
const measurementsEveryMs = 15 * 60_000;

export class DeviceInbox {
  readonly #state: DeviceState;
  readonly #presence: DevicePresence;
  readonly #commands: DeviceCommands;
  #measuredAtMs: number | undefined;

  constructor(state: DeviceState, presence: DevicePresence, commands: DeviceCommands) {
    this.#state = state;
    this.#presence = presence;
    this.#commands = commands;
  }

  /** A message of the broker, which the bridge may bring more than once. */
  take(spoolId: string, message: SessionMessage): MessageResult {
    const { action, payload } = message;
    const { marks } = this.#state.live;
    if (isTaken(marks, spoolId, message.seq)) return { result: 'again', ...reasonOf(message) };
    const digest = fingerprint(`${action}\n${payload}`);
    const { isDup, receivedAtMs } = message;
    const isRepeated = isDup ? isRecent(marks, digest) : isOvertaken(marks, spoolId, digest, receivedAtMs);
    if (isRepeated) {
      this.#state.touch({ marks: takeRepeated(marks, spoolId, message.seq) });
      return { result: 'repeated' };
    }
    const taken = take(marks, spoolId, message.seq, digest);
    this.#state.touch({ marks: isDup ? noteRedelivered(taken, spoolId, digest, receivedAtMs) : taken });
    // A retained message tells of the past: the broker hands it to every new subscription.
    if (message.isRetained) return { result: 'ignored' };
    if (isTooLarge(payload)) return { result: 'rejected', reason: 'too_large' };
    const meaning = interpretMessage(action, payload);
    if (meaning.kind === 'status' && this.#presence.isEcho(payload)) return { result: 'ignored' };
    const atMs = Math.min(message.receivedAtMs, Date.now());
    // What cannot be read was still sent by the device.
    const isStatus = meaning.kind === 'status';
    const event = isStatus
      ? { kind: 'announced' as const, status: meaning.status, atMs }
      : { kind: 'message' as const, atMs };
    const hasReturned = this.#presence.apply(event);
    const result = this.#heed(meaning, atMs);
    // After the message itself, which may be the reply that settles what would be published again.
    if (hasReturned) this.#commands.onReturn();
    return result;
  }

  /** A message of the device's own relay session, which says nothing about its session at the broker. */
  takeFromRelay(action: TopicAction, payload: string): MessageResult {
    return this.#heed(interpretMessage(action, payload), Date.now());
  }

  #heed(meaning: DeviceMessage, atMs: number): MessageResult {
    if (meaning.kind === 'invalid') return { result: 'rejected', reason: meaning.reason };
    if (meaning.kind === 'report') this.#merge(meaning.properties, atMs);
    if (meaning.kind === 'reply' && meaning.id !== undefined) {
      this.#commands.acknowledge(meaning.id, meaning.code ?? null);
    }
    return { result: 'accepted' };
  }

  #merge(reported: ReadonlyMap<string, Json>, arrivedAtMs: number): void {
    const { properties } = this.#state.live;
    const changes = mergeProperties(new Map(properties.map(([name, value]) => [name, value])), reported);
    this.#commands.confirm(reported, changes);
    if (changes.size === 0) return;
    const kept = properties.filter(([name]) => !changes.has(name));
    const changed = [...changes].map(([name, value]): [string, Json, number] => [name, value, arrivedAtMs]);
    this.#measuredAtMs ??= Math.max(0, ...properties.filter(([name]) => isMeasurement(name)).map(([, , time]) => time));
    const isMeasurementAlone = [...changes.keys()].every(isMeasurement);
    if (isMeasurementAlone && arrivedAtMs - this.#measuredAtMs < measurementsEveryMs) {
      this.#state.touch({ properties: [...kept, ...changed] });
      return;
    }
    this.#state.change({ properties: [...kept, ...changed] });
    this.#measuredAtMs = arrivedAtMs;
    const position = positionSchema.safeParse(changes.get('position'));
    if (position.success) this.#recordPosition(position.data, arrivedAtMs);
  }

  #recordPosition(position: Position, time: number): void {
    const positionChanges = this.#state.live.positionChanges + 1;
    this.#state.change({ positionChanges });
    this.#state.storage.addPositionChange(positionChanges, { position, time });
  }
}

/** Why it can have no effect; nothing where it can, or where it was never to have one. */
function reasonOf({ action, payload, isRetained }: SessionMessage): { reason?: string } {
  if (isRetained) return {};
  if (isTooLarge(payload)) return { reason: 'too_large' };
  const meaning = interpretMessage(action, payload);
  return meaning.kind === 'invalid' ? { reason: meaning.reason } : {};
}

function isTooLarge(payload: string): boolean {
  // Counting bytes is for the payloads that are near the limit: a character has three at most.
  return payload.length * 3 > maxPayloadBytes && new TextEncoder().encode(payload).length > maxPayloadBytes;
}
