// Hands messages to the relay shards that are subscribed and removes those that have no socket for them. Used by the
// device's object for its own messages, and by the uplink for whole batches.
import type { MessageResult } from '../domain/device/inbox.ts';
import type { Subscription } from '../domain/device/subscriptions.ts';
import { callDevice, callRelay } from './stubs.ts';

/** Messages of one device on one topic, oldest first, in columns: an object each would cost more than it carries. */
export type RelayRun = {
  deviceId: string;
  topic: string;
  /** As they came: JSON text, or any other text. */
  payloads: string[];
  /** Of the device's valid credentials: relay sessions that were opened with others get nothing. */
  generations: readonly number[];
  /**
   * Where a bridge brought them, which may bring them again: the spool with its numbers, and the device's result for each.
   * `accepted` ones were read as JSON.
   */
  origin?: { spoolId: string; seqs: number[]; results: Exclude<MessageResult['result'], 'ignored'>[] };
};

/** One call a shard, all in parallel. Never throws: a failed push is lost and logged by the call. */
export async function pushToRelays(
  env: Env,
  deliveries: { run: RelayRun; subscriptions: readonly Subscription[] }[],
): Promise<void> {
  const pushes = new Map<string, { runs: RelayRun[]; registrationIds: Map<string, number> }>();
  for (const { run, subscriptions } of deliveries) {
    for (const { shard, registrationId } of subscriptions) {
      let push = pushes.get(shard);
      if (push === undefined) pushes.set(shard, (push = { runs: [], registrationIds: new Map() }));
      push.runs.push(run);
      push.registrationIds.set(run.deviceId, registrationId);
    }
  }
  await Promise.allSettled(
    [...pushes].map(async ([shard, { runs, registrationIds }]) => {
      const { nobodyFor } = await callRelay(env, shard, 'push', 'once', (relay) => relay.push(runs));
      await Promise.all(
        nobodyFor.map((deviceId) =>
          callDevice(env, deviceId, 'unsubscribe', 'idempotent', (device) =>
            device.unsubscribe(shard, registrationIds.get(deviceId) ?? 0),
          ),
        ),
      );
    }),
  );
}
