// Hands messages to the relay shards that listen and drops those that say nobody does. Used by the device's session
// for what it says itself, and by the uplink for whole batches.
import { callDevice, callRelay } from './stubs.ts';
import type { LiveState } from './device-storage.ts';

/** Messages of one device on one topic, oldest first, in columns: an object each would cost more than it carries. */
export type RelayRun = {
  deviceId: string;
  topic: string;
  /** As they came: JSON text, or any other text. */
  payloads: string[];
  /**
   * Where a bridge brought them, which may bring them again: the spool and its numbers, and what the session made of
   * each. `accepted` ones have been read as JSON; `again` and `repeated` were there before, under this number or another.
   */
  origin?: { spoolId: string; seqs: number[]; taken: ('accepted' | 'rejected' | 'again' | 'repeated')[] };
};

/** One call a shard, all in parallel. A shard that fails has no subscribers left to tell: its sockets are gone. */
export async function pushToRelays(
  env: Env,
  deliveries: { run: RelayRun; listeners: LiveState['listeners'] }[],
): Promise<void> {
  const pushes = new Map<string, { runs: RelayRun[]; signUps: Map<string, number> }>();
  for (const { run, listeners } of deliveries) {
    for (const { shard, signUp } of listeners) {
      let push = pushes.get(shard);
      if (push === undefined) pushes.set(shard, (push = { runs: [], signUps: new Map() }));
      push.runs.push(run);
      push.signUps.set(run.deviceId, signUp);
    }
  }
  await Promise.allSettled(
    [...pushes].map(async ([shard, { runs, signUps }]) => {
      const { nobodyFor } = await callRelay(env, shard, 'push', 'once', (relay) => relay.push(runs));
      await Promise.all(
        nobodyFor.map((deviceId) =>
          callDevice(env, deviceId, 'unwatch', 'repeatable', (device) =>
            device.unwatch(shard, signUps.get(deviceId) ?? 0),
          ),
        ),
      );
    }),
  );
}
