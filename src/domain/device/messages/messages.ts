// Reads a device's message (contract 6, field notes 44-49): a report, a reply, a status announcement, or why it is none of
// them. Slice: the last message that was not understood, for the maker of the device. Decides nothing about what a message changes.
import { minuteMs } from '../../time.ts';
import { countRejection } from '../core/counts.ts';
import type { DeviceState, Slice } from '../core/state.ts';
import { maxPayloadBytes } from '../../../protocol/bridge.ts';
import * as firmware from '../../../protocol/firmware.ts';
import * as mqtt from '../../../protocol/mqtt.ts';
import type { rejectionReasons } from '../../../protocol/vocabulary.ts';
import { isJsonObject, readJson, type Json } from '../../json.ts';

export type DeviceMessage =
  /** `timeMs`: when the device says that it read them. */
  | { kind: 'report'; properties: Map<string, Json>; dropped?: readonly string[]; timeMs?: number }
  | { kind: 'reply'; id: string | undefined; code: number | undefined }
  | { kind: 'status'; status: 'online' | 'offline' }
  | ({ kind: 'update' } & UpdateMessage)
  | { kind: 'invalid'; reason: InvalidReason };

export type UpdateMessage =
  | { about: 'inform'; body: firmware.Inform }
  | { about: 'progress'; body: firmware.Progress }
  | { about: 'get'; body: firmware.Get };

type Reason = (typeof rejectionReasons)[number];
export type InvalidReason = Exclude<Reason, 'wrong_type'>;

const maxPropertyBytes = 1024;
const maxShownNames = 8;
const maxShownName = 64;

const messageMembers: readonly string[] = ['method', 'id', 'time', 'timestamp', 'version', 'params'];

/** Routes by `method` if there is a method, else by topic (decision: messages). */
export function readMessage(action: mqtt.TopicAction, payload: string): DeviceMessage {
  if (isTooLarge(payload)) return { kind: 'invalid', reason: 'too_large' };
  const read = readJson(payload);
  if ('problem' in read) return { kind: 'invalid', reason: read.problem };
  const body = read.value;
  if (!isJsonObject(body)) return { kind: 'invalid', reason: 'not_an_object' };
  const update = updateMessages.find(([topic]) => topic === action);
  if (update !== undefined) return readUpdate(update, body);
  const method = body.method;
  if (method === mqtt.propertySetReplyMethod) return readReply(body);
  if (method === mqtt.propertyPostMethod) return readReport(body);
  if (method !== undefined && method !== null) return { kind: 'invalid', reason: 'unknown_method' };
  if (action === mqtt.topicActions.status) return readStatus(body);
  return action === mqtt.topicActions.propertySetReply ? readReply(body) : readReport(body);
}

function readReport(body: { [name: string]: Json }): DeviceMessage {
  const { params, time } = body;
  if (params !== undefined) {
    return isJsonObject(params) ? report(params, time) : { kind: 'invalid', reason: 'params_not_an_object' };
  }
  const bare = Object.entries(body).filter(([name]) => !messageMembers.includes(name));
  return report(Object.fromEntries(bare), time);
}

function report(properties: { [name: string]: Json }, time: Json | undefined): DeviceMessage {
  const kept = new Map<string, Json>();
  const dropped: string[] = [];
  for (const [name, value] of Object.entries(properties)) {
    if (isStorable(name, value)) kept.set(name, value);
    else if (dropped.length < maxShownNames) dropped.push(name.slice(0, maxShownName));
  }
  const timed = typeof time === 'number' ? { timeMs: time } : {};
  return { kind: 'report', properties: kept, ...(dropped.length > 0 && { dropped }), ...timed };
}

function isStorable(name: string, value: Json): boolean {
  if (Object.hasOwn(mqtt.knownProperties, name))
    return mqtt.isKnownProperty(name as keyof typeof mqtt.knownProperties, value);
  return name.length <= 64 && JSON.stringify(value).length <= maxPropertyBytes;
}

function readReply(body: { [name: string]: Json }): DeviceMessage {
  const { id, code } = body;
  return {
    kind: 'reply',
    id: typeof id === 'string' || typeof id === 'number' ? String(id) : undefined,
    code: typeof code === 'number' ? code : undefined,
  };
}

function readStatus(body: { [name: string]: Json }): DeviceMessage {
  const parsed = mqtt.statusSchema.safeParse(body);
  return parsed.success
    ? { kind: 'status', status: parsed.data.status }
    : { kind: 'invalid', reason: 'invalid_status' };
}

const updateMessages = [
  [mqtt.topicActions.otaInform, 'inform', firmware.informSchema],
  [mqtt.topicActions.otaProgress, 'progress', firmware.progressSchema],
  [mqtt.topicActions.otaGet, 'get', firmware.getSchema],
] as const;

function readUpdate([, about, schema]: (typeof updateMessages)[number], body: Json): DeviceMessage {
  const parsed = schema.safeParse(body);
  if (!parsed.success) return { kind: 'invalid', reason: 'invalid_update' };
  return { kind: 'update', about, body: parsed.data } as DeviceMessage;
}

function isTooLarge(payload: string): boolean {
  // A UTF-16 unit has three bytes at most: only payloads near the limit are counted.
  return payload.length * 3 > maxPayloadBytes && new TextEncoder().encode(payload).length > maxPayloadBytes;
}

export function mentionedCommands(action: mqtt.TopicAction, payload: string): string[] {
  const mayBeReply = action === mqtt.topicActions.propertySetReply || payload.includes(mqtt.propertySetReplyMethod);
  const message = mayBeReply ? readMessage(action, payload) : undefined;
  return message?.kind === 'reply' && message.id !== undefined ? [message.id] : [];
}

export type LastRejected = {
  action: mqtt.TopicAction;
  reason: Reason;
  dropped: readonly string[];
  text: string;
  atMs: number;
};

const shownBytes = 200;
/** The same reason is saved this often: a device with a mistake makes it in every report. */
const saveRejectedEveryMs = 15 * minuteMs;

export function noteRejected(
  state: DeviceState,
  message: DeviceMessage,
  { action, payload }: { action: mqtt.TopicAction; payload: string },
  nowMs: number,
): DeviceState {
  const { reason, dropped = [] } = problemOf(message);
  if (reason === undefined) return state;
  const lastRejected = { action, reason, dropped, text: beginOf(payload), atMs: nowMs };
  return countRejection({ ...state, lastRejected }, { reason, topic: action }, nowMs);
}

function problemOf(message: DeviceMessage): { reason?: Reason; dropped?: readonly string[] } {
  if (message.kind === 'invalid') return message;
  return message.kind === 'report' && message.dropped ? { reason: 'wrong_type', dropped: message.dropped } : {};
}

export const lastRejectedSlice: Slice<LastRejected | null> = {
  initial: null,
  row: 'own',
  isWorthSaving: ({ lastRejected: saved }, { lastRejected: present }) => {
    if (saved === present) return false;
    if (saved === null || present === null) return true;
    return saved.reason !== present.reason || present.atMs - saved.atMs >= saveRejectedEveryMs;
  },
  onNewOwner: 'forget',
};

function beginOf(payload: string): string {
  const bytes = new TextEncoder().encode(payload.slice(0, shownBytes));
  return new TextDecoder().decode(bytes.subarray(0, shownBytes)).replace(/\uFFFD+$/, '');
}
