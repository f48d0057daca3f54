// Passes WebSockets on to the objects that hold them.
import { callBrokerLink, callRelay, relayShardOf } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

export function openBridgeLink({ env }: ServiceContext, request: Request): Promise<Response> {
  return callBrokerLink(env, 'fetch', 'once', (link) => link.fetch(request));
}

/** One client address stays on one shard. */
export function openRelay({ env, config }: ServiceContext, request: Request, clientAddress: string): Promise<Response> {
  const shard = relayShardOf(clientAddress, config.relayShards);
  return callRelay(env, shard, 'fetch', 'once', (relay) => relay.fetch(request));
}
