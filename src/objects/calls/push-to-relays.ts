// Hands messages to the relay shards that are subscribed, and removes shards that have no socket for them. Used by the
// device's object for its own messages, and by the uplink for whole batches.
import type { MessageResult } from '../../domain/device/messages/inbox.ts';
import type { NoticeRules } from '../../domain/notices.ts';
import type { WebhookFilter } from '../../domain/webhooks/webhooks.ts';
import type { Subscription } from '../../domain/device/messages/subscriptions.ts';
import { callDevice, callFleetDirectory, callListener } from './stubs.ts';

/** A shard with a subscription to all devices of a user. `registrationId`: the number of its last registration. */
export type FleetListener = { shard: string; registrationId: number };
export type FleetRegistration = FleetListener & { userId: number };
/** What the directory of a user tells a device. `rules` is absent for the default rules. */
export type FleetAnswer = { listeners: FleetListener[]; webhooks: WebhookFilter[]; rules?: NoticeRules };

/** Messages of one device on one topic, oldest first, in columns: an object each would cost more than it carries. */
export type RelayRun = {
  deviceId: string;
  topic: string;
  /** As they arrived: JSON text, or any other text. */
  payloads: string[];
  /** They were read as JSON. Absent: not known. */
  areJson?: boolean;
  /** Generations of the device's valid credentials: relay sessions of other credentials get nothing. */
  generations: readonly number[];
  /** The users who may follow the device: their subscriptions to all their devices get its messages. Absent: none. */
  readers?: readonly number[];
  /** A client with the device's credentials does not get them. */
  isForUsers?: true;
  /** A bridge brought them and may bring them again: the spool with its numbers and times, and the device's results. */
  origin?: { spoolId: string; seqs: number[]; receivedAtMs: number[]; results: BridgeMessage['result'][] };
};

export type RelayMessage = { topic: string; payload: string; isJson: boolean };
export type BridgeMessage = RelayMessage & {
  spoolId: string;
  seq: number;
  receivedAtMs: number;
  result: Exclude<MessageResult['result'], 'ignored'>;
};
type Rights = Pick<RelayRun, 'generations' | 'readers'>;

/** Joins messages that follow each other on one topic; a run holds either JSON or other texts. */
export function runsOf(
  deviceId: string,
  { generations, readers }: Rights,
  messages: readonly (RelayMessage | BridgeMessage)[],
): RelayRun[] {
  const runs: RelayRun[] = [];
  for (const message of messages) {
    const { topic, payload, isJson } = message;
    let run = runs.at(-1);
    if (run?.topic !== topic || run.areJson !== isJson) {
      run = { deviceId, topic, payloads: [], areJson: isJson, generations, readers: readers ?? [] };
      if ('seq' in message) run.origin = { spoolId: message.spoolId, seqs: [], receivedAtMs: [], results: [] };
      runs.push(run);
    }
    run.payloads.push(payload);
    if (run.origin === undefined || !('seq' in message)) continue;
    run.origin.seqs.push(message.seq);
    run.origin.receivedAtMs.push(message.receivedAtMs);
    run.origin.results.push(message.result);
  }
  return runs;
}

export type RelayDelivery = {
  run: RelayRun;
  subscriptions: readonly Subscription[];
  /** The readers' subscriptions to all their devices. */
  fleets: readonly FleetRegistration[];
};

/** One call a shard, all in parallel. Never throws: a failed push is lost and logged by the call. */
export async function pushToRelays(env: Env, deliveries: readonly RelayDelivery[]): Promise<void> {
  const subscribed = deliveries.flatMap(({ subscriptions, fleets }) => [...subscriptions, ...fleets]);
  const shards = new Set(subscribed.map(({ shard }) => shard));
  await Promise.allSettled([...shards].map((shard) => pushToShard(env, shard, deliveries)));
}

async function pushToShard(env: Env, shard: string, deliveries: readonly RelayDelivery[]): Promise<void> {
  const runs: RelayRun[] = [];
  const devices = new Map<string, number>();
  const fleets = new Map<string, { deviceId: string; registration: FleetRegistration }>();
  for (const { run, subscriptions, fleets: registrations } of deliveries) {
    const { deviceId } = run;
    const device = subscriptions.find((entry) => entry.shard === shard);
    const own = registrations.filter((entry) => entry.shard === shard);
    if (device !== undefined) devices.set(deviceId, device.registrationId);
    for (const registration of own) fleets.set(`${deviceId} ${registration.userId}`, { deviceId, registration });
    if (device !== undefined || own.length > 0) runs.push(run);
  }
  const { nobodyFor, noFleetOf } = await callListener(env, shard, 'once').push(runs);
  const endings: Promise<unknown>[] = [];
  for (const deviceId of nobodyFor) {
    const registrationId = devices.get(deviceId);
    if (registrationId === undefined) continue;
    endings.push(callDevice(env, deviceId, 'idempotent').decide({ kind: 'subscription_ended', shard, registrationId }));
  }
  const directories = new Map<number, number>();
  for (const { deviceId, registration } of fleets.values()) {
    const { userId, registrationId } = registration;
    if (!noFleetOf.includes(userId)) continue;
    directories.set(userId, registrationId);
    endings.push(callDevice(env, deviceId, 'idempotent').endFleetLease(userId, false));
  }
  for (const [userId, registrationId] of directories) {
    endings.push(callFleetDirectory(env, userId, 'idempotent').leave(shard, registrationId));
  }
  await Promise.all(endings);
}
