// Takes a batch from a bridge: one DeviceSession call a device, all in parallel, then one push a relay shard.
// Touches no D1. Answers each message, so that one bad message never holds up another.
import type { SessionMessage } from '../durable/device-inbox.ts';
import type { LiveState } from '../durable/device-storage.ts';
import { pushToRelays, type RelayMessage } from '../durable/relay-push.ts';
import { deviceSession } from '../durable/stubs.ts';
import { parseTopic, type DeviceIdentity } from '../domain/topics.ts';
import { uplinkItemSchema, type UplinkItem, type UplinkResult } from '../protocol/bridge.ts';
import type { ServiceContext } from './context.ts';

export type Batch = { spoolId: string; sentAtMs: number; items: unknown[] };

type Entry = { index: number; item: UplinkItem; message: SessionMessage };
type Delivery = { message: RelayMessage; listeners: LiveState['listeners'] };

/** Results stand in the order of the items. */
export async function takeBatch(context: ServiceContext, batch: Batch): Promise<UplinkResult[]> {
  const results: UplinkResult[] = [];
  const entriesByDevice = new Map<string, { device: DeviceIdentity; entries: Entry[] }>();
  // The bridge's clock may be wrong: what counts is how long before sending a message arrived.
  const offsetMs = Date.now() - batch.sentAtMs;
  for (const [index, raw] of batch.items.entries()) {
    const parsed = uplinkItemSchema.safeParse(raw);
    if (!parsed.success) {
      results[index] = { seq: seqOf(raw), result: 'rejected', reason: 'malformed_item' };
      continue;
    }
    const item = parsed.data;
    const target = parseTopic(item.topic);
    const { payload } = item;
    if (target === undefined || payload === undefined) {
      const reason = target === undefined ? 'unknown_topic' : 'not_text';
      results[index] = { seq: item.seq, result: 'rejected', reason };
      continue;
    }
    const message: SessionMessage = {
      seq: item.seq,
      action: target.action,
      payload,
      isDup: item.dup ?? false,
      isRetained: item.retain ?? false,
      receivedAtMs: item.receivedAtMs + offsetMs,
    };
    const name = `${target.device.productKey}/${target.device.deviceId}`;
    const group = entriesByDevice.get(name) ?? { device: target.device, entries: [] };
    group.entries.push({ index, item, message });
    entriesByDevice.set(name, group);
  }

  const deliveries: Delivery[] = [];
  await Promise.all(
    [...entriesByDevice.values()].map(async ({ device, entries }) => {
      // The mark of what was taken only ever rises: a lower number behind a higher one would count as seen.
      entries.sort((one, other) => one.item.seq - other.item.seq);
      const taken = await takeForDevice(context, batch.spoolId, device, entries);
      for (const [index, result] of taken.results) results[index] = result;
      deliveries.push(...taken.deliveries);
    }),
  );
  await pushToRelays(context.env, deliveries);
  return results;
}

async function takeForDevice(
  { env }: ServiceContext,
  spoolId: string,
  device: DeviceIdentity,
  entries: Entry[],
): Promise<{ results: [index: number, result: UplinkResult][]; deliveries: Delivery[] }> {
  let ingested;
  try {
    const messages = entries.map(({ message }) => message);
    ingested = await deviceSession(env, device.deviceId).ingest(device.productKey, spoolId, messages);
  } catch {
    // The object could not be reached (overloaded, moving): nothing of this device is lost, it comes again.
    return {
      results: entries.map(({ index, item }) => [
        index,
        { seq: item.seq, result: 'retry', reason: 'device_unreachable' },
      ]),
      deliveries: [],
    };
  }
  const results: [number, UplinkResult][] = [];
  const deliveries: Delivery[] = [];
  for (const [position, { index, item, message }] of entries.entries()) {
    const taken = ingested.results[position] ?? { result: 'rejected' as const, reason: 'unanswered' };
    const isRejected = taken.result === 'rejected';
    results.push([
      index,
      isRejected ? { seq: item.seq, result: 'rejected', reason: taken.reason } : { seq: item.seq, result: 'accepted' },
    ]);
    // Subscribers see what the device sent, even what the service could not read; never the service's own echo.
    if (taken.result === 'ignored') continue;
    const [isAgain, isRepeated] = [taken.result === 'again', taken.result === 'repeated'];
    const origin = { spoolId, seq: item.seq, isAgain, isRepeated };
    deliveries.push({
      message: { deviceId: device.deviceId, topic: item.topic, payload: message.payload, origin },
      listeners: ingested.listeners,
    });
  }
  return { results, deliveries };
}

function seqOf(raw: unknown): number {
  const seq = typeof raw === 'object' && raw !== null && 'seq' in raw ? raw.seq : undefined;
  return typeof seq === 'number' && Number.isSafeInteger(seq) ? seq : 0;
}
