// Passes WebSockets on to the objects that hold them. A device's socket wakes the object before anybody has shown a password:
// only so many a minute do; for those beyond, the Worker reads CONNECT first.
import { rememberNewest } from '../../domain/newest.ts';
import { invalidInput, notFound, RefusedError, type Limit } from '../../domain/refusal.ts';
import { isDeviceId } from '../../domain/topics.ts';
import { callBrokerLink, callDevice, callRelay, relayShardOf } from '../../objects/calls/stubs.ts';
import { directAddressHeader } from '../../objects/device/mqtt/sockets.ts';
import { relayAddressHeader } from '../../objects/relay/socket.ts';
import { mqttSubprotocol } from '../../protocol/gateway.ts';
import type { ServiceContext } from '../../context.ts';
import { UnprovenBudget } from './unproven-budget.ts';
import { openUnproven } from './unproven-socket.ts';

/** The second is asked for by clients that may speak MQTT 3.1, which then learn that it is not served. */
const subprotocols: readonly string[] = [mqttSubprotocol, 'mqttv3.1'];
const rememberMissingMs = 10_000;
const maxMissing = 10_000;

const missing = new Map<string, { untilMs: number }>();
/** A device reconnects a few times a minute at most, and 20 of one network may at once. */
const unproven = new UnprovenBudget({ device: 6, network: 20, all: 300 });

export function openBridgeLink({ env }: ServiceContext, request: Request): Promise<Response> {
  return callBrokerLink(env, 'once').fetch(request);
}

/** One client address stays on one shard, which therefore counts its sockets exactly. */
export async function openRelay({ env, config, clientAddress }: ServiceContext, request: Request) {
  const shard = relayShardOf(clientAddress, config.relayShards);
  const response = await callRelay(env, shard, 'once').fetch(withHeader(request, relayAddressHeader, clientAddress));
  const { webSocket } = response;
  if (webSocket !== null) return answerUpgrade(webSocket, selectSubprotocol(request));
  throw new RefusedError({ kind: 'limit_reached', limit: await response.json<Limit>() });
}

/** MQTT on the device's object. */
export async function openDevice(context: ServiceContext, request: Request, deviceId: string) {
  const nowMs = Date.now();
  if (!isDeviceId(deviceId) || (missing.get(deviceId)?.untilMs ?? 0) > nowMs) throw notFound('device', deviceId);
  const subprotocol = selectSubprotocol(request);
  if (subprotocol === undefined && request.headers.has('Sec-WebSocket-Protocol')) {
    throw invalidInput('Sec-WebSocket-Protocol', 'expected mqtt');
  }
  if (context.config.rateLimits === 'production' && !unproven.take(deviceId, context.clientAddress, nowMs)) {
    return answerUpgrade(openUnproven(context, deviceId), subprotocol);
  }
  const device = callDevice(context.env, deviceId, 'once');
  const { webSocket } = await device.fetch(withHeader(request, directAddressHeader, context.clientAddress));
  if (webSocket !== null) return answerUpgrade(webSocket, subprotocol);
  rememberNewest(missing, deviceId, { untilMs: nowMs + rememberMissingMs }, maxMissing);
  throw notFound('device', deviceId);
}

function withHeader(request: Request, name: string, address: string): Request {
  const headers = new Headers(request.headers);
  headers.set(name, encodeURIComponent(address));
  return new Request(request, { headers });
}

function selectSubprotocol(request: Request): string | undefined {
  const names = request.headers.get('Sec-WebSocket-Protocol')?.split(',') ?? [];
  return names.map((name) => name.trim()).find((name) => subprotocols.includes(name));
}

function answerUpgrade(webSocket: WebSocket, subprotocol: string | undefined): Response {
  const headers = subprotocol === undefined ? {} : { 'Sec-WebSocket-Protocol': subprotocol };
  return new Response(null, { status: 101, webSocket, headers });
}
