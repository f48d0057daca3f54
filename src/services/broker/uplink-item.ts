// Reads one item of a bridge's batch. The schema in protocol/bridge.ts defines an item; the shape that nearly all have is
// recognised by hand, because zod cannot compile its checks in a Worker and would take longer than all the rest.
import { uplinkItemSchema, type UplinkItem } from '../../protocol/bridge.ts';

/** undefined if it does not match the schema. */
export function readItem(raw: unknown): UplinkItem | undefined {
  return isPlain(raw) ? raw : uplinkItemSchema.safeParse(raw).data;
}

/** Text, neither redelivered nor retained. Stricter than the schema, never more lenient. */
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
