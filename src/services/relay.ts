// Hands a relay client's WebSocket to the shard of its address: one address stays on one shard.
import { relayGateway, relayShardOf } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

export async function openRelay(
  { env, config }: ServiceContext,
  request: Request,
  clientAddress: string,
): Promise<Response> {
  return relayGateway(env, relayShardOf(clientAddress, config.relayShards)).fetch(request);
}
