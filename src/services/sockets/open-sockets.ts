// Passes WebSockets on to the objects that hold them.
import { RefusedError, type Limit } from '../../domain/refusal.ts';
import { relayAddressHeader } from '../../objects/relay/socket.ts';
import { callBrokerLink, callRelay, relayShardOf } from '../../objects/calls/stubs.ts';
import type { ServiceContext } from '../../context.ts';

/** @throws RefusedError `object_failed` */
export function openBridgeLink({ env }: ServiceContext, request: Request): Promise<Response> {
  return callBrokerLink(env, 'fetch', 'once', (link) => link.fetch(request));
}

/** Of MQTT, where the client asks for one. */
export function selectSubprotocol(request: Request): string | undefined {
  const asked = request.headers.get('Sec-WebSocket-Protocol')?.split(',') ?? [];
  return asked.map((name) => name.trim()).find((name) => subprotocols.includes(name));
}

export function answerUpgrade(webSocket: WebSocket, subprotocol: string | undefined): Response {
  const headers = subprotocol === undefined ? {} : { 'Sec-WebSocket-Protocol': subprotocol };
  return new Response(null, { status: 101, webSocket, headers });
}

/** The second is asked for by clients that may speak MQTT 3.1, which then learn that it is not served. */
const subprotocols: readonly string[] = ['mqtt', 'mqttv3.1'];

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
