// Takes a batch from a bridge: one DeviceSession call a device, all in parallel, then one push a relay shard.
// Touches no D1. Answers each message, so that one bad message never holds up another.
import { packMessages, type SessionMessage } from '../durable/device-inbox.ts';
import type { LiveState } from '../durable/device-storage.ts';
import { pushToRelays, type RelayRun } from '../durable/relay-push.ts';
import { deviceSession } from '../durable/stubs.ts';
import { parseTopic, type DeviceIdentity, type TopicAction } from '../domain/topics.ts';
import { maxBatchDevices, type UplinkResult } from '../protocol/bridge.ts';
import type { ServiceContext } from './context.ts';
import { readItem } from './uplink-item.ts';

export type Batch = { spoolId: string; sentAtMs: number; items: unknown[] };

type Entry = { index: number; topic: string; message: SessionMessage };
type Group = { device: DeviceIdentity; entries: Entry[] };
type Delivery = { run: RelayRun; listeners: LiveState['listeners'] };

/** Results stand in the order of the items. */
export async function takeBatch(context: ServiceContext, batch: Batch): Promise<UplinkResult[]> {
  const results: UplinkResult[] = [];
  const groups = new Groups();
  // The bridge's clock may be wrong: what counts is how long before sending a message arrived.
  const offsetMs = Date.now() - batch.sentAtMs;
  for (const [index, raw] of batch.items.entries()) {
    const item = readItem(raw);
    if (item === undefined) {
      results[index] = { seq: seqOf(raw), result: 'rejected', reason: 'malformed_item' };
      continue;
    }
    const target = groups.find(item.topic);
    const { payload } = item;
    if (target === undefined || payload === undefined) {
      const reason = target === undefined ? 'unknown_topic' : 'not_text';
      results[index] = { seq: item.seq, result: 'rejected', reason };
      continue;
    }
    // The first delivery has its own item in the same spool.
    if (item.dup === true && item.redeliveryOf !== undefined) {
      results[index] = { seq: item.seq, result: 'accepted' };
      continue;
    }
    const message: SessionMessage = {
      seq: item.seq,
      action: target.action,
      payload,
      isDup: item.dup === true && item.soleReader !== true,
      isRetained: item.retain ?? false,
      receivedAtMs: item.receivedAtMs + offsetMs,
    };
    target.group.entries.push({ index, topic: item.topic, message });
  }

  const served = groups.list();
  for (const { entries } of served.splice(maxBatchDevices)) {
    for (const { index, message } of entries) {
      results[index] = { seq: message.seq, result: 'retry', reason: 'too_many_devices' };
    }
  }
  const deliveries: Delivery[] = [];
  await Promise.all(
    served.map(async ({ device, entries }) => {
      // The mark of what was taken only ever rises: a lower number behind a higher one would count as seen.
      entries.sort((one, other) => one.message.seq - other.message.seq);
      const answered = await takeForDevice(context, batch.spoolId, device, entries);
      for (const [index, result] of answered.results) results[index] = result;
      deliveries.push(...answered.deliveries);
    }),
  );
  await pushToRelays(context.env, deliveries);
  return results;
}

/** A batch's messages by device. Parses a topic once: busy devices fill whole batches with one. */
class Groups {
  readonly #byDevice = new Map<string, Group>();
  readonly #byTopic = new Map<string, { action: TopicAction; group: Group } | undefined>();

  list(): Group[] {
    return [...this.#byDevice.values()].filter(({ entries }) => entries.length > 0);
  }

  find(topic: string): { action: TopicAction; group: Group } | undefined {
    if (this.#byTopic.has(topic)) return this.#byTopic.get(topic);
    const parsed = parseTopic(topic);
    const found = parsed && { action: parsed.action, group: this.#groupOf(parsed.device) };
    this.#byTopic.set(topic, found);
    return found;
  }

  #groupOf(device: DeviceIdentity): Group {
    const name = `${device.productKey}/${device.deviceId}`;
    const group = this.#byDevice.get(name) ?? { device, entries: [] };
    this.#byDevice.set(name, group);
    return group;
  }
}

async function takeForDevice(
  { env }: ServiceContext,
  spoolId: string,
  device: DeviceIdentity,
  entries: Entry[],
): Promise<{ results: [index: number, result: UplinkResult][]; deliveries: Delivery[] }> {
  let ingested;
  try {
    const columns = packMessages(entries.map(({ message }) => message));
    ingested = await deviceSession(env, device.deviceId).ingest(device.productKey, spoolId, columns);
  } catch {
    // The object could not be reached (overloaded, moving): nothing of this device is lost, it comes again.
    return {
      results: entries.map(({ index, message }) => [
        index,
        { seq: message.seq, result: 'retry', reason: 'device_unreachable' },
      ]),
      deliveries: [],
    };
  }
  const others = new Map(ingested.others.map((other) => [other.position, other]));
  const results: [number, UplinkResult][] = [];
  const runs: Required<RelayRun>[] = [];
  for (const [position, { index, topic, message }] of entries.entries()) {
    const { seq, payload } = message;
    const taken = others.get(position) ?? { result: 'accepted' as const };
    const reason = 'reason' in taken ? taken.reason : undefined;
    results.push([index, reason === undefined ? { seq, result: 'accepted' } : { seq, result: 'rejected', reason }]);
    // Subscribers see what the device sent, even what the service could not read; never the service's own echo.
    if (taken.result === 'ignored') continue;
    let run = runs.at(-1);
    if (run?.topic !== topic) runs.push((run = startRun(device.deviceId, topic, spoolId)));
    run.payloads.push(payload);
    run.origin.seqs.push(seq);
    run.origin.taken.push(taken.result);
  }
  return { results, deliveries: runs.map((run) => ({ run, listeners: ingested.listeners })) };
}

function startRun(deviceId: string, topic: string, spoolId: string): Required<RelayRun> {
  return { deviceId, topic, payloads: [], origin: { spoolId, seqs: [], taken: [] } };
}

function seqOf(raw: unknown): number {
  const seq = typeof raw === 'object' && raw !== null && 'seq' in raw ? raw.seq : undefined;
  return typeof seq === 'number' && Number.isSafeInteger(seq) ? seq : 0;
}
