// Passes WebSockets on to the objects that hold them. A device's socket wakes the object before anybody has shown a password:
// only so many a minute do; for those beyond, and for homes, the Worker reads CONNECT first and checks what it shows.
import { digestIfCertified } from '../../crypto/messaging-password.ts';
import { actorOf, hasScope } from '../../domain/access.ts';
import { connectRefusalOf } from '../../domain/direct/answer-codes.ts';
import { readLogin } from '../../domain/direct/connect.ts';
import { readHomeLogin } from '../../domain/home/clients.ts';
import { rememberNewest } from '../../domain/newest.ts';
import { invalidInput, notFound, RefusedError, type Limit } from '../../domain/refusal.ts';
import { isDeviceId } from '../../domain/topics.ts';
import { clientAddressHeader } from '../../objects/calls/open-socket.ts';
import { callBrokerLink, callDevice, callHome, callRelay, relayShardOf } from '../../objects/calls/stubs.ts';
import { homeOwnerHeader } from '../../objects/home/home-broker.ts';
import { mqttSubprotocol } from '../../protocol/gateway.ts';
import type { ConnectPacket } from '../../protocol/mqtt-codec/client-packets.ts';
import type { ServiceContext } from '../../context.ts';
import { authenticateKey } from '../accounts/api-keys.ts';
import { UnprovenBudget } from './unproven-budget.ts';
import { openUnproven, type Admission } from './unproven-socket.ts';

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
  const response = await callRelay(env, shard, 'once').fetch(withAddress(request, clientAddress));
  const { webSocket } = response;
  if (webSocket !== null) return answerUpgrade(webSocket, selectSubprotocol(request));
  throw new RefusedError({ kind: 'limit_reached', limit: await response.json<Limit>() });
}

/** MQTT on the device's object. */
export async function openDevice(context: ServiceContext, request: Request, deviceId: string) {
  const nowMs = Date.now();
  if (!isDeviceId(deviceId) || (missing.get(deviceId)?.untilMs ?? 0) > nowMs) throw notFound('device', deviceId);
  const subprotocol = requireSubprotocol(request);
  if (context.config.rateLimits === 'production' && !unproven.take(deviceId, context.clientAddress, nowMs)) {
    const admit = (packet: ConnectPacket) => admitDevice(context, deviceId, packet);
    return answerUpgrade(openUnproven(context, { about: { deviceId }, admit }), subprotocol);
  }
  const device = callDevice(context.env, deviceId, 'once');
  const { webSocket } = await device.fetch(withAddress(request, context.clientAddress));
  if (webSocket !== null) return answerUpgrade(webSocket, subprotocol);
  rememberNewest(missing, deviceId, { untilMs: nowMs + rememberMissingMs }, maxMissing);
  throw notFound('device', deviceId);
}

/** MQTT on the object of the API key that CONNECT shows. */
export function openHome(context: ServiceContext, request: Request): Response {
  const subprotocol = requireSubprotocol(request);
  const about = { home: context.clientAddress };
  return answerUpgrade(openUnproven(context, { about, admit: (packet) => admitHome(context, packet) }), subprotocol);
}

export async function admitDevice(
  context: ServiceContext,
  deviceId: string,
  packet: ConnectPacket,
): Promise<Admission> {
  const { env, config, clientAddress } = context;
  const login = readLogin(packet, deviceId);
  if ('refusal' in login) return login;
  const digest = await digestIfCertified(config.messagingSecrets, login.device, login.password);
  if (!digest.ok) return { refusal: connectRefusalOf(digest.refusal), because: digest.refusal };
  return openObject(callDevice(env, deviceId, 'once'), { [clientAddressHeader]: clientAddress });
}

async function admitHome(context: ServiceContext, packet: ConnectPacket): Promise<Admission> {
  const login = readHomeLogin(packet);
  if ('refusal' in login) return login;
  const key = await authenticateKey(context, login.keyId, login.password);
  if (!key.ok) return { refusal: connectRefusalOf(key.refusal), because: key.refusal };
  if (!hasScope(key.value, 'readReports')) return { refusal: 'not_authorized' };
  const headers = {
    [clientAddressHeader]: context.clientAddress,
    [homeOwnerHeader]: JSON.stringify({ actor: actorOf(key.value), origin: new URL(context.requestUrl).origin }),
  };
  return openObject(callHome(context.env, login.keyId, 'once'), headers);
}

async function openObject(object: Pick<Fetcher, 'fetch'>, given: Record<string, string>): Promise<Admission> {
  const headers = new Headers({ Upgrade: 'websocket' });
  for (const [name, value] of Object.entries(given)) headers.set(name, encodeURIComponent(value));
  try {
    const { webSocket } = await object.fetch(new Request('https://object/mqtt', { headers }));
    return webSocket ?? { refusal: 'bad_credentials' };
  } catch (error) {
    if (error instanceof RefusedError) return { refusal: connectRefusalOf(error.refusal), because: error.refusal };
    throw error;
  }
}

function withAddress(request: Request, address: string): Request {
  const headers = new Headers(request.headers);
  headers.set(clientAddressHeader, encodeURIComponent(address));
  return new Request(request, { headers });
}

function selectSubprotocol(request: Request): string | undefined {
  const names = request.headers.get('Sec-WebSocket-Protocol')?.split(',') ?? [];
  return names.map((name) => name.trim()).find((name) => subprotocols.includes(name));
}

/** @throws RefusedError for a client that asks for other ones */
function requireSubprotocol(request: Request): string | undefined {
  const subprotocol = selectSubprotocol(request);
  if (subprotocol === undefined && request.headers.has('Sec-WebSocket-Protocol')) {
    throw invalidInput('Sec-WebSocket-Protocol', 'expected mqtt');
  }
  return subprotocol;
}

function answerUpgrade(webSocket: WebSocket, subprotocol: string | undefined): Response {
  const headers = subprotocol === undefined ? {} : { 'Sec-WebSocket-Protocol': subprotocol };
  return new Response(null, { status: 101, webSocket, headers });
}
