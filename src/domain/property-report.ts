// What a message of a device means (interface 6, tolerance E): a report, a reply, a status announcement, or why it is
// none of them. Pure; decides nothing about presence or storage.
import {
  knownProperties,
  propertyPostMethod,
  propertySetReplyMethod,
  statusSchema,
  topicActions,
  type TopicAction,
} from '../protocol/mqtt.ts';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export type DeviceMessage =
  | { kind: 'report'; properties: Map<string, Json> }
  | { kind: 'reply'; id: string | undefined; code: number | undefined }
  | { kind: 'status'; status: 'online' | 'offline' }
  | { kind: 'invalid'; reason: string };

export const maxPayloadBytes = 16 * 1024;
const maxProperties = 64;
const maxPropertyBytes = 1024;

/** Members of the message around bare properties, which are no properties themselves. */
const messageMembers: readonly string[] = ['method', 'id', 'time', 'timestamp', 'version', 'params'];

/** Properties that differ in nearly every report without anything having happened. */
export function isMeasurement(name: string): boolean {
  return name === 'wifi_rssi';
}

/** Routes by `method` where there is one, by topic where there is none (decisions, Messages). */
export function interpretMessage(action: TopicAction, payload: string): DeviceMessage {
  const body = parseJson(payload);
  if (body === undefined) return { kind: 'invalid', reason: 'not_json' };
  if (!isJsonObject(body)) return { kind: 'invalid', reason: 'not_an_object' };
  const method = body.method;
  if (method === propertySetReplyMethod) return readReply(body);
  if (method === propertyPostMethod) return readReport(body);
  if (method !== undefined && method !== null) return { kind: 'invalid', reason: 'unknown_method' };
  if (action === topicActions.status) return readStatus(body);
  return action === topicActions.propertySetReply ? readReply(body) : readReport(body);
}

/** The parsed JSON, or undefined where the text is none. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** The properties after a report, and which of them changed; unknown ones are kept up to a limit. */
export function mergeProperties(
  known: ReadonlyMap<string, Json>,
  reported: ReadonlyMap<string, Json>,
): Map<string, Json> {
  const changes = new Map<string, Json>();
  for (const [name, value] of reported) {
    const isNew = !known.has(name);
    if (isNew && known.size + changes.size >= maxProperties) continue;
    if (isNew || !isSame(known.get(name), value)) changes.set(name, value);
  }
  return changes;
}

function isSame(one: Json | undefined, other: Json): boolean {
  return one === other || (typeof other === 'object' && JSON.stringify(one) === JSON.stringify(other));
}

function readReport(body: { [name: string]: Json }): DeviceMessage {
  const params = body.params;
  if (params !== undefined) {
    return isJsonObject(params) ? report(params) : { kind: 'invalid', reason: 'params_not_an_object' };
  }
  const bare = Object.entries(body).filter(([name]) => !messageMembers.includes(name));
  return report(Object.fromEntries(bare));
}

function report(properties: { [name: string]: Json }): DeviceMessage {
  const kept = Object.entries(properties).filter(([name, value]) => {
    if (Object.hasOwn(knownProperties, name)) {
      return knownProperties[name as keyof typeof knownProperties].safeParse(value).success;
    }
    return name.length <= 64 && JSON.stringify(value).length <= maxPropertyBytes;
  });
  return { kind: 'report', properties: new Map(kept) };
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
  const parsed = statusSchema.safeParse(body);
  return parsed.success
    ? { kind: 'status', status: parsed.data.status }
    : { kind: 'invalid', reason: 'invalid_status' };
}

function isJsonObject(value: Json): value is { [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
