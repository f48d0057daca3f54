// Takes a batch from a bridge: one DeviceSession call per device, all in parallel, then one push per relay shard. Answers
// each message by itself, so that a bad message or device never holds up another. Must not touch D1.
import type { InboundMessage, RejectionReason } from '../../domain/device/messages/inbox.ts';
import { pushToRelays, runsOf, type BridgeMessage, type RelayDelivery } from '../../objects/calls/push-to-relays.ts';
import { callDevice, hasAnswer } from '../../objects/calls/stubs.ts';
import { objectAnswerMs, startDeadline, within } from '../../objects/calls/within.ts';
import { RefusedError, type ObjectFailure } from '../../domain/refusal.ts';
import { messagingName, parseTopic, type DeviceIdentity } from '../../domain/topics.ts';
import { log } from '../../log.ts';
import {
  droppedReason,
  maxBatchDevices,
  messageFailed,
  uplinkItemSchema,
  type UplinkBatch,
} from '../../protocol/bridge.ts';
import type { ServiceContext } from '../../context.ts';

type ItemResult = { seq: number } & (
  | { result: 'accepted' }
  | { result: 'rejected'; reason: RejectionReason | 'malformed_item' | 'unknown_topic' }
  | { result: 'retry'; reason: RetryReason }
);

const deviceFailures = {
  retryable: 'device_unreachable',
  overloaded: 'device_overloaded',
  broken: 'device_failed',
} as const satisfies Record<ObjectFailure, string>;

type RetryReason =
  'too_many_devices' | 'device_timeout' | typeof messageFailed | (typeof deviceFailures)[ObjectFailure];

type Entry = { index: number; topic: string; message: InboundMessage };
type Group = { device: DeviceIdentity; entries: Entry[] };
type Taken = { results: [index: number, result: ItemResult][]; deliveries: RelayDelivery[] };

/** @returns the results in the order of the items */
export async function takeBatch(
  { env }: ServiceContext,
  batch: UplinkBatch,
  answerWithinMs = objectAnswerMs,
): Promise<ItemResult[]> {
  const results: ItemResult[] = [];
  const groups = new Map<string, Group>();
  // Each topic is parsed once: a busy device fills whole batches with one topic.
  const targets = new Map<string, ReturnType<typeof parseTopic>>();
  // The bridge's clock may be wrong: what counts is how long before the sending a message arrived.
  const offsetMs = Date.now() - batch.sentAtMs;
  for (const [index, raw] of batch.items.entries()) {
    const item = uplinkItemSchema.safeParse(raw).data;
    if (item === undefined) {
      results[index] = { seq: seqOf(raw), result: 'rejected', reason: 'malformed_item' };
      continue;
    }
    const { seq, topic, payload, payloadBase64 } = item;
    const target = targets.get(topic) ?? parseTopic(topic);
    if (target === undefined) {
      results[index] = { seq, result: 'rejected', reason: 'unknown_topic' };
      continue;
    }
    targets.set(topic, target);
    const name = messagingName(target.device);
    let group = groups.get(name);
    if (group === undefined) groups.set(name, (group = { device: target.device, entries: [] }));
    const message: InboundMessage = {
      seq,
      action: target.action,
      payload: payload ?? '',
      unreadable: payload !== undefined ? undefined : payloadBase64 === undefined ? 'too_large' : 'not_text',
      isDup: item.dup ?? false,
      redeliveryOf: item.redeliveryOf,
      isSoleReader: item.soleReader ?? false,
      isRetained: item.retain ?? false,
      receivedAtMs: item.receivedAtMs + offsetMs,
    };
    group.entries.push({ index, topic, message });
  }

  const reporting = Promise.all((batch.dropped ?? []).map((count) => reportDropped(env, count)));
  const served = [...groups.values()];
  for (const { index, message } of served.splice(maxBatchDevices).flatMap(({ entries }) => entries)) {
    results[index] = { seq: message.seq, result: 'retry', reason: 'too_many_devices' };
  }
  const deliveries: RelayDelivery[] = [];
  // One timer for all: a timer for each device costs a fifth of a call.
  const deadline = startDeadline(answerWithinMs);
  await Promise.all(
    served.map(async (group) => {
      // The high-water mark only rises: a lower number after a higher one would count as a duplicate.
      group.entries.sort((a, b) => a.message.seq - b.message.seq);
      const taking = takeForDevice(env, batch.spoolId, group);
      // What it still does is recognised when the messages come again: the device's object knows their numbers.
      const answered = (await Promise.race([taking, deadline.passed])) ?? retryLate(group);
      for (const [index, result] of answered.results) results[index] = result;
      deliveries.push(...answered.deliveries);
    }),
  ).finally(deadline.stop);
  const pushing = Promise.all([pushToRelays(env, deliveries), reporting]);
  if ((await within(answerWithinMs, pushing)) === undefined) {
    log('warn', 'uplink: a relay shard or a device does not answer', { items: batch.items.length });
  }
  return results;
}

async function takeForDevice(env: Env, spoolId: string, group: Group): Promise<Taken> {
  const { productKey, deviceId } = group.device;
  const { entries } = group;
  let ingested;
  try {
    const messages = entries.map(({ message }) => message);
    ingested = await callDevice(env, deviceId, 'idempotent').ingest(productKey, spoolId, messages);
  } catch (error) {
    // Nothing of this device is lost: the bridge sends it again.
    const isCallFailure = error instanceof RefusedError && error.refusal.kind === 'object_failed';
    const reason = deviceFailures[isCallFailure ? error.refusal.failure : 'broken'];
    log('warn', 'uplink: device not served', { deviceId, items: entries.length, reason, error: String(error) });
    return reason === 'device_failed'
      ? takeFirst(env, spoolId, group)
      : { results: retryAll(entries, reason), deliveries: [] };
  }
  const others = new Map(ingested.others.map((other) => [other.position, other]));
  const results: [number, ItemResult][] = [];
  const heard: BridgeMessage[] = [];
  for (const [position, { index, topic, message }] of entries.entries()) {
    const { seq, payload, receivedAtMs } = message;
    const taken = others.get(position) ?? { result: 'accepted' as const };
    const reason = 'reason' in taken ? taken.reason : undefined;
    results.push([index, reason === undefined ? { seq, result: 'accepted' } : { seq, result: 'rejected', reason }]);
    // Subscribers get what the device sent, also what the service cannot read, but not the echo of an announcement,
    // nor one of too many.
    if (taken.result === 'ignored' || reason === droppedReason || message.unreadable !== undefined) continue;
    const { result } = taken;
    heard.push({ topic, payload, isJson: result === 'accepted', spoolId, seq, receivedAtMs, result });
  }
  const runs = runsOf(deviceId, ingested, heard);
  const { subscriptions, fleets } = ingested;
  return { results, deliveries: runs.map((run) => ({ run, subscriptions, fleets })) };
}

/** The object failed with these messages: with the first of them alone, or with anything? The others wait. */
async function takeFirst(env: Env, spoolId: string, { device, entries }: Group): Promise<Taken> {
  if (entries.length > 1) {
    const first = await takeForDevice(env, spoolId, { device, entries: entries.slice(0, 1) });
    return { ...first, results: [...first.results, ...retryAll(entries.slice(1), 'device_failed')] };
  }
  const check = callDevice(env, device.deviceId, 'once').checkStorage();
  const reason = (await hasAnswer(check)) ? messageFailed : 'device_failed';
  return { results: retryAll(entries, reason), deliveries: [] };
}

/** For the device's owner to see. A count that cannot be told is lost. */
async function reportDropped(env: Env, { topic, count }: { topic: string; count: number }): Promise<void> {
  const deviceId = parseTopic(topic)?.device.deviceId;
  if (deviceId === undefined) return;
  const event = { kind: 'messages_dropped', count } as const;
  await hasAnswer(callDevice(env, deviceId, 'once').decide(event));
}

function retryLate({ device: { deviceId }, entries }: Group): Taken {
  const reason = 'device_timeout';
  log('warn', 'uplink: device not served', { deviceId, items: entries.length, reason });
  return { results: retryAll(entries, reason), deliveries: [] };
}

function retryAll(entries: Entry[], reason: RetryReason): Taken['results'] {
  return entries.map(({ index, message: { seq } }) => [index, { seq, result: 'retry', reason }]);
}

function seqOf(raw: unknown): number {
  const seq = typeof raw === 'object' && raw !== null && 'seq' in raw ? raw.seq : undefined;
  return typeof seq === 'number' && Number.isSafeInteger(seq) ? seq : 0;
}
