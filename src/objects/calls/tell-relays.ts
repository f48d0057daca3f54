// Tells every relay shard that API keys or a user's access have ended. A shard that cannot be told finds out by itself within a
// minute (objects/relay/relay-gateway.ts).
import { callRelay, relayShardNames, resultOr, type RemoteRelay } from './stubs.ts';

/** Between the tries to tell a shard. */
const pausesMs = [100, 300];

/** Never throws: a failure is logged by the call. */
export async function tellRelays(
  env: Env,
  shards: number,
  operation: string,
  tell: (relay: RemoteRelay) => Promise<void>,
): Promise<void> {
  const tellOnce = (shard: string) => resultOr('failed', callRelay(env, shard, operation, 'idempotent', tell));
  await Promise.all(
    relayShardNames(shards).map(async (shard) => {
      for (const pauseMs of pausesMs) {
        if ((await tellOnce(shard)) !== 'failed') return;
        await scheduler.wait(pauseMs);
      }
      await tellOnce(shard);
    }),
  );
}
