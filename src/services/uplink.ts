// Takes a batch from a bridge: one DeviceSession call per device, all in parallel, then one push per relay shard. Answers
// each message by itself, so that a bad message or device never holds up another. Must not touch D1.
import type { InboundMessage, RejectionReason } from '../domain/device/inbox.ts';
import type { Subscription } from '../domain/device/subscriptions.ts';
import { packMessages } from '../durable/message-columns.ts';
import { pushToRelays, type RelayRun } from '../durable/relay-push.ts';
import { callDevice } from '../durable/stubs.ts';
import { RefusedError, type ObjectFailure } from '../domain/refusal.ts';
import { messagingName, parseTopic, type DeviceIdentity } from '../domain/topics.ts';
import { log } from '../log.ts';
import { droppedReason, maxBatchDevices } from '../protocol/bridge.ts';
import type { ServiceContext } from './context.ts';
import { readItem } from './uplink-item.ts';

type Batch = { spoolId: string; sentAtMs: number; items: unknown[] };

type ItemResult = { seq: number } & (
  | { result: 'accepted' }
  | { result: 'rejected'; reason: 'malformed_item' | 'unknown_topic' | 'not_text' }
  | { result: 'rejected'; reason: RejectionReason }
  | { result: 'retry'; reason: 'too_many_devices' | (typeof deviceFailures)[ObjectFailure] }
);

const deviceFailures = {
  retryable: 'device_unreachable',
  overloaded: 'device_overloaded',
  broken: 'device_failed',
} as const satisfies Record<ObjectFailure, string>;

type Entry = { index: number; topic: string; message: InboundMessage };
type Group = { device: DeviceIdentity; entries: Entry[] };
type Delivery = { run: RelayRun; subscriptions: readonly Subscription[] };

/** @returns the results in the order of the items */
export async function takeBatch({ env }: ServiceContext, batch: Batch): Promise<ItemResult[]> {
  const results: ItemResult[] = [];
  const groups = new Map<string, Group>();
  // Each topic is parsed once: a busy device fills whole batches with one topic.
  const targets = new Map<string, ReturnType<typeof parseTopic>>();
  // The bridge's clock may be wrong: what counts is how long before the sending a message arrived.
  const offsetMs = Date.now() - batch.sentAtMs;
  for (const [index, raw] of batch.items.entries()) {
    const item = readItem(raw);
    if (item === undefined) {
      results[index] = { seq: seqOf(raw), result: 'rejected', reason: 'malformed_item' };
      continue;
    }
    const { seq, topic, payload } = item;
    const target = targets.get(topic) ?? parseTopic(topic);
    if (target === undefined || payload === undefined) {
      results[index] = { seq, result: 'rejected', reason: target === undefined ? 'unknown_topic' : 'not_text' };
      continue;
    }
    targets.set(topic, target);
    const name = messagingName(target.device);
    let group = groups.get(name);
    if (group === undefined) groups.set(name, (group = { device: target.device, entries: [] }));
    const message: InboundMessage = {
      seq,
      action: target.action,
      payload,
      isDup: item.dup ?? false,
      redeliveryOf: item.redeliveryOf,
      isSoleReader: item.soleReader ?? false,
      isRetained: item.retain ?? false,
      receivedAtMs: item.receivedAtMs + offsetMs,
    };
    group.entries.push({ index, topic, message });
  }

  const served = [...groups.values()];
  for (const { index, message } of served.splice(maxBatchDevices).flatMap(({ entries }) => entries)) {
    results[index] = { seq: message.seq, result: 'retry', reason: 'too_many_devices' };
  }
  const deliveries: Delivery[] = [];
  await Promise.all(
    served.map(async (group) => {
      // The high-water mark only rises: a lower number after a higher one would count as a duplicate.
      group.entries.sort((one, other) => one.message.seq - other.message.seq);
      const answered = await takeForDevice(env, batch.spoolId, group);
      for (const [index, result] of answered.results) results[index] = result;
      deliveries.push(...answered.deliveries);
    }),
  );
  await pushToRelays(env, deliveries);
  return results;
}

async function takeForDevice(
  env: Env,
  spoolId: string,
  { device: { productKey, deviceId }, entries }: Group,
): Promise<{ results: [index: number, result: ItemResult][]; deliveries: Delivery[] }> {
  let ingested;
  try {
    const columns = packMessages(entries.map(({ message }) => message));
    ingested = await callDevice(env, deviceId, 'ingest', 'idempotent', (session) =>
      session.ingest(productKey, spoolId, columns),
    );
  } catch (error) {
    // Nothing of this device is lost: the bridge sends it again.
    const isCallFailure = error instanceof RefusedError && error.refusal.kind === 'object_failed';
    const reason = deviceFailures[isCallFailure ? error.refusal.failure : 'broken'];
    log('warn', 'uplink: device not served', { deviceId, items: entries.length, reason, error: String(error) });
    return {
      results: entries.map(({ index, message: { seq } }) => [index, { seq, result: 'retry', reason }]),
      deliveries: [],
    };
  }
  const others = new Map(ingested.others.map((other) => [other.position, other]));
  const results: [number, ItemResult][] = [];
  const runs: Required<RelayRun>[] = [];
  for (const [position, { index, topic, message }] of entries.entries()) {
    const { seq, payload } = message;
    const taken = others.get(position) ?? { result: 'accepted' as const };
    const reason = 'reason' in taken ? taken.reason : undefined;
    results.push([index, reason === undefined ? { seq, result: 'accepted' } : { seq, result: 'rejected', reason }]);
    // Subscribers get what the device sent, also what the service cannot read, but not the echo of an announcement,
    // nor one of too many.
    if (taken.result === 'ignored' || reason === droppedReason) continue;
    let run = runs.at(-1);
    if (run?.topic !== topic) {
      const origin = { spoolId, seqs: [], results: [] };
      runs.push((run = { deviceId, topic, payloads: [], revocations: ingested.revocations, origin }));
    }
    run.payloads.push(payload);
    run.origin.seqs.push(seq);
    run.origin.results.push(taken.result);
  }
  return { results, deliveries: runs.map((run) => ({ run, subscriptions: ingested.subscriptions })) };
}

function seqOf(raw: unknown): number {
  const seq = typeof raw === 'object' && raw !== null && 'seq' in raw ? raw.seq : undefined;
  return typeof seq === 'number' && Number.isSafeInteger(seq) ? seq : 0;
}
