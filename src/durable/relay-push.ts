// Hands messages to the relay shards that listen and drops those that say nobody does. Used by the device's session
// for what it says itself, and by the uplink for whole batches.
import { deviceSession, relayGateway } from './stubs.ts';
import type { LiveState } from './device-storage.ts';

export type RelayMessage = {
  deviceId: string;
  topic: string;
  /** The message as it came: JSON text, or any other text. */
  payload: string;
  /** The payload was read as JSON before; otherwise the shard looks. */
  isJson?: boolean;
  /** Where the bridge retries a batch: the shard drops what it has seen, and what came under another number before. */
  origin?: { spoolId: string; seq: number; isAgain: boolean; isRepeated: boolean };
};

/** One call a shard, all in parallel. A shard that fails has no subscribers left to tell: its sockets are gone. */
export async function pushToRelays(
  env: Env,
  deliveries: { message: RelayMessage; listeners: LiveState['listeners'] }[],
): Promise<void> {
  const pushes = new Map<string, { messages: RelayMessage[]; signUps: Map<string, number> }>();
  for (const { message, listeners } of deliveries) {
    for (const { shard, signUp } of listeners) {
      let push = pushes.get(shard);
      if (push === undefined) pushes.set(shard, (push = { messages: [], signUps: new Map() }));
      push.messages.push(message);
      push.signUps.set(message.deviceId, signUp);
    }
  }
  await Promise.allSettled(
    [...pushes].map(async ([shard, { messages, signUps }]) => {
      const { nobodyFor } = await relayGateway(env, shard).push(messages);
      await Promise.all(
        nobodyFor.map((deviceId) => deviceSession(env, deviceId).unwatch(shard, signUps.get(deviceId) ?? 0)),
      );
    }),
  );
}
