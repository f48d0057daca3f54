// What a device's messages do to its state: each once in effect, in order. Pushes nothing to subscribers (the uplink
// does, a batch at a time), and changes nothing for a message that says nothing new.
import { createHash } from 'node:crypto';
import {
  interpretMessage,
  isMeasurement,
  maxPayloadBytes,
  mergeProperties,
  type Json,
} from '../domain/property-report.ts';
import type { TopicAction } from '../domain/topics.ts';
import { isRecent, isTaken, take } from '../domain/uplink-marks.ts';
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

/** `accepted` is in effect now, `again` was before, `ignored` has none: an echo of the service, or retained. */
export type MessageResult = { result: 'accepted' | 'again' | 'ignored' } | { result: 'rejected'; reason: string };

/** Measurements never rest: alone they are written this often, and otherwise with whatever else is. */
const measurementsEveryMs = 15 * 60_000;

export class DeviceInbox {
  readonly #state: DeviceState;
  readonly #presence: DevicePresence;
  #measuredAtMs: number | undefined;

  constructor(state: DeviceState, presence: DevicePresence) {
    this.#state = state;
    this.#presence = presence;
  }

  take(spoolId: string, message: SessionMessage): MessageResult {
    const { marks } = this.#state.live;
    if (isTaken(marks, spoolId, message.seq)) return { result: 'again' };
    const digest = createHash('sha256').update(`${message.action}\n${message.payload}`).digest('base64').slice(0, 16);
    this.#state.touch({ marks: take(marks, spoolId, message.seq, digest) });
    if (message.isDup && isRecent(marks, digest)) return { result: 'again' };
    // A retained message tells of the past: the broker hands it to every new subscription.
    if (message.isRetained) return { result: 'ignored' };
    if (isTooLarge(message.payload)) return { result: 'rejected', reason: 'too_large' };
    const meaning = interpretMessage(message.action, message.payload);
    if (meaning.kind === 'status' && this.#presence.isEcho(message.payload)) return { result: 'ignored' };
    const atMs = Math.min(message.receivedAtMs, Date.now());
    // What cannot be read was still sent by the device.
    this.#presence.apply(
      meaning.kind === 'status' ? { kind: 'announced', status: meaning.status, atMs } : { kind: 'message', atMs },
    );
    if (meaning.kind === 'invalid') return { result: 'rejected', reason: meaning.reason };
    if (meaning.kind === 'report') this.#merge(meaning.properties, atMs);
    return { result: 'accepted' };
  }

  #merge(reported: ReadonlyMap<string, Json>, arrivedAtMs: number): void {
    const { properties } = this.#state.live;
    const changes = mergeProperties(new Map(properties.map(([name, value]) => [name, value])), reported);
    if (changes.size === 0) return;
    const kept = properties.filter(([name]) => !changes.has(name));
    const changed = [...changes].map(([name, value]): [string, Json, number] => [name, value, arrivedAtMs]);
    const change = { properties: [...kept, ...changed] };
    this.#measuredAtMs ??= Math.max(0, ...properties.filter(([name]) => isMeasurement(name)).map(([, , time]) => time));
    const isMeasurementAlone = [...changes.keys()].every(isMeasurement);
    if (isMeasurementAlone && arrivedAtMs - this.#measuredAtMs < measurementsEveryMs) {
      this.#state.touch(change);
      return;
    }
    this.#state.change(change);
    this.#measuredAtMs = arrivedAtMs;
  }
}

function isTooLarge(payload: string): boolean {
  // Counting bytes is for the payloads that are near the limit: a character has three at most.
  return payload.length * 3 > maxPayloadBytes && new TextEncoder().encode(payload).length > maxPayloadBytes;
}
