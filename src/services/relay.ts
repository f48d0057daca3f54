// Passes a relay client's WebSocket on to the shard of its address: one address stays on one shard.
import { callRelay, relayShardOf } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

export async function openRelay(
  { env, config }: ServiceContext,
  request: Request,
  clientAddress: string,
): Promise<Response> {
  return callRelay(env, relayShardOf(clientAddress, config.relayShards), 'fetch', 'once', (shard) =>
    shard.fetch(request),
  );
}
