// Hands messages to the relay shards that are subscribed, and removes shards that have no socket for them. Used by the
// device's object for its own messages, and by the uplink for whole batches.
import type { MessageResult } from '../../domain/device/messages/inbox.ts';
import type { Subscription } from '../../domain/device/messages/subscriptions.ts';
import { callDevice, callFleetDirectory, callRelay } from './stubs.ts';

/** A shard with a subscription to all devices of a user. `registrationId`: the number of its last registration. */
export type FleetListener = { shard: string; registrationId: number };
export type FleetRegistration = FleetListener & { userId: number };

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

type Push = {
  runs: RelayRun[];
  devices: Map<string, number>;
  fleets: Map<string, { deviceId: string; registration: FleetRegistration }>;
};

/** One call a shard, all in parallel. Never throws: a failed push is lost and logged by the call. */
export async function pushToRelays(env: Env, deliveries: readonly RelayDelivery[]): Promise<void> {
  const pushes = new Map<string, Push>();
  const pushTo = (shard: string, run: RelayRun): Push => {
    const push: Push = pushes.get(shard) ?? { runs: [], devices: new Map(), fleets: new Map() };
    pushes.set(shard, push);
    if (push.runs.at(-1) !== run) push.runs.push(run);
    return push;
  };
  for (const { run, subscriptions, fleets } of deliveries) {
    const { deviceId } = run;
    const shards = new Set([...subscriptions, ...fleets].map(({ shard }) => shard));
    for (const shard of shards) {
      const push = pushTo(shard, run);
      for (const entry of subscriptions) if (entry.shard === shard) push.devices.set(deviceId, entry.registrationId);
      for (const registration of fleets) {
        if (registration.shard === shard)
          push.fleets.set(`${deviceId} ${registration.userId}`, { deviceId, registration });
      }
    }
  }
  await Promise.allSettled([...pushes].map(([shard, push]) => pushToShard(env, shard, push)));
}

async function pushToShard(env: Env, shard: string, { runs, devices, fleets }: Push): Promise<void> {
  const { nobodyFor, noFleetOf } = await callRelay(env, shard, 'once').push(runs);
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
    endings.push(callDevice(env, deviceId, 'idempotent').endFleetLease(userId));
  }
  for (const [userId, registrationId] of directories) {
    endings.push(callFleetDirectory(env, userId, 'idempotent').leave(shard, registrationId));
  }
  await Promise.all(endings);
}
