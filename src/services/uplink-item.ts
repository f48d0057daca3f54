// Reads one item of a bridge's batch. The schema in protocol/bridge.ts says what an item is; what nearly all look like
// is told by hand, because zod may not compile its checks in a Worker and then takes longer than all else about an item.
import { uplinkItemSchema, type UplinkItem } from '../protocol/bridge.ts';

/** undefined where the schema refuses it. */
export function readItem(raw: unknown): UplinkItem | undefined {
  return isPlain(raw) ? raw : uplinkItemSchema.safeParse(raw).data;
}

/** Text, neither delivered again nor retained. Stricter than the schema, never more lenient. */
function isPlain(raw: unknown): raw is UplinkItem {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) return false;
  const { seq, topic, payload, payloadBase64, dup, retain, receivedAtMs } = raw as Record<string, unknown>;
  const isText = typeof topic === 'string' && topic.length <= 1024 && typeof payload === 'string';
  const isUnmarked = payloadBase64 === undefined && dup === undefined && retain === undefined;
  return isText && isUnmarked && isCount(seq) && seq > 0 && isCount(receivedAtMs);
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
