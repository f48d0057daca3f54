// Passes WebSockets on to the objects that hold them.
import { RefusedError, type Limit } from '../domain/refusal.ts';
import { relayAddressHeader } from '../durable/relay-socket.ts';
import { callBrokerLink, callRelay, relayShardOf } from '../durable/stubs.ts';
import type { ServiceContext } from './context.ts';

export function openBridgeLink({ env }: ServiceContext, request: Request): Promise<Response> {
  return callBrokerLink(env, 'fetch', 'once', (link) => link.fetch(request));
}

/**
 * One client address stays on one shard, which therefore counts its sockets exactly.
 * @throws RefusedError `limit_reached`, `object_failed`
 */
export async function openRelay(
  { env, config }: ServiceContext,
  request: Request,
  clientAddress: string,
): Promise<Response> {
  const shard = relayShardOf(clientAddress, config.relayShards);
  const headers = new Headers(request.headers);
  headers.set(relayAddressHeader, encodeURIComponent(clientAddress));
  const response = await callRelay(env, shard, 'fetch', 'once', (relay) =>
    relay.fetch(new Request(request, { headers })),
  );
  if (response.status === 101) return response;
  throw new RefusedError({ kind: 'limit_reached', limit: await response.json<Limit>() });
}
