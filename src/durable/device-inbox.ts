// What a device's messages do to its state: each once in effect, in order. Pushes nothing to subscribers (the uplink
// does, a batch at a time) and writes a row only for a message that changes something.
import { createHash } from 'node:crypto';
import { interpretMessage, maxPayloadBytes, mergeProperties, type Json } from '../domain/property-report.ts';
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

export class DeviceInbox {
  readonly #state: DeviceState;
  readonly #presence: DevicePresence;

  constructor(state: DeviceState, presence: DevicePresence) {
    this.#state = state;
    this.#presence = presence;
  }

  async take(spoolId: string, message: SessionMessage): Promise<MessageResult> {
    const { marks } = this.#state.live;
    if (isTaken(marks, spoolId, message.seq)) return { result: 'again' };
    const digest = createHash('sha256').update(`${message.action}\n${message.payload}`).digest('base64').slice(0, 16);
    this.#state.touch({ marks: take(marks, spoolId, message.seq, digest) });
    if (message.isDup && isRecent(marks, digest)) return { result: 'again' };
    // A retained message tells of the past: the broker hands it to every new subscription.
    if (message.isRetained) return { result: 'ignored' };
    if (new TextEncoder().encode(message.payload).length > maxPayloadBytes) {
      return { result: 'rejected', reason: 'too_large' };
    }
    const meaning = interpretMessage(message.action, message.payload);
    if (meaning.kind === 'status' && this.#presence.isEcho(message.payload)) return { result: 'ignored' };
    const atMs = Math.min(message.receivedAtMs, Date.now());
    await this.#presence.apply(
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
    this.#state.save({ properties: [...kept, ...changed] });
  }
}
