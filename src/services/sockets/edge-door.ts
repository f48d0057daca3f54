// Sockets of `{ws_url}/mqtt/{deviceId}`: straight to the object of the device that the path names. That wakes it before anybody
// has shown a password, so only so many a minute go this way; for those beyond, the Worker reads CONNECT first and wakes no
// object for a guess or for a device that is not there. Memory only, by isolate.
import { unspent, spend, type Spent } from '../../domain/token-bucket.ts';
import { rememberNewest } from '../../domain/newest.ts';
import { RefusedError } from '../../domain/refusal.ts';
import { isDeviceId } from '../../domain/topics.ts';
import { edgeAddressHeader } from '../../objects/device/mqtt/sockets.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import type { ServiceContext } from '../../context.ts';
import { openByFirstFrame } from './first-frame.ts';
import { answerUpgrade, selectSubprotocol } from './open-sockets.ts';

/** A device without a record may get one. */
const rememberMissingMs = 10_000;

const maxRemembered = 10_000;
// Bounded by `maxRemembered`.
const missing = new Map<string, { untilMs: number }>();
const spentByNetwork = new Map<string, Spent>();
const spentByDevice = new Map<string, Spent>();
let spentByAll = unspent;

/**
 * MQTT on the object of the device that the path names.
 * @param network the client's address, an IPv6 one by its /64
 * @throws RefusedError `not_found`, `invalid_input`, `limit_reached`, `object_failed`
 */
export async function openEdge(
  context: ServiceContext,
  request: Request,
  deviceId: string,
  network: string,
): Promise<Response> {
  const nowMs = Date.now();
  const notFound = new RefusedError({ kind: 'not_found', what: 'device', id: deviceId });
  if (!isDeviceId(deviceId) || (missing.get(deviceId)?.untilMs ?? 0) > nowMs) throw notFound;
  const subprotocol = selectSubprotocol(request);
  // MQTT-6.0.0-3; clients that ask for no sub-protocol are served, too.
  if (subprotocol === undefined && request.headers.has('Sec-WebSocket-Protocol')) {
    throw new RefusedError({ kind: 'invalid_input', path: 'Sec-WebSocket-Protocol', problem: 'expected mqtt' });
  }
  if (!mayGoStraight(context, deviceId, network, nowMs)) return openByFirstFrame(context, request, network, deviceId);
  const headers = new Headers(request.headers);
  headers.set(edgeAddressHeader, encodeURIComponent(network));
  const { webSocket } = await callDevice(context.env, deviceId, 'fetch', 'once', (device) =>
    device.fetch(new Request(request, { headers })),
  );
  if (webSocket !== null) return answerUpgrade(webSocket, subprotocol);
  const entry = { untilMs: nowMs + rememberMissingMs };
  rememberNewest(missing, deviceId, entry, maxRemembered);
  throw notFound;
}

function mayGoStraight({ config }: ServiceContext, deviceId: string, network: string, nowMs: number): boolean {
  if (config.rateLimits !== 'production') return true;
  const { limits } = config;
  const byDevice = spend(spentByDevice.get(deviceId) ?? unspent, limits.edgeUnprovenPerDeviceMinute, nowMs);
  const byNetwork = spend(spentByNetwork.get(network) ?? unspent, limits.edgeUnprovenPerAddressMinute, nowMs);
  const byAll = spend(spentByAll, limits.edgeUnprovenPerMinute, nowMs);
  if (byDevice === undefined || byNetwork === undefined || byAll === undefined) return false;
  rememberNewest(spentByDevice, deviceId, byDevice, maxRemembered);
  rememberNewest(spentByNetwork, network, byNetwork, maxRemembered);
  spentByAll = byAll;
  return true;
}
