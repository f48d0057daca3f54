// Relay sockets inside workerd, all at the same shard, and messages as a bridge would bring them. Asserts nothing but that
// a request was accepted.
import { env } from 'cloudflare:workers';
import { readConfig } from '../../../../src/config.ts';
import { signAccessToken } from '../../../../src/crypto/tokens.ts';
import { topicOf, type DeviceIdentity } from '../../../../src/domain/topics.ts';
import { relayShardOf } from '../../../../src/objects/calls/stubs.ts';
import { uplinkPath } from '../../../../src/protocol/bridge.ts';
import { call } from './client.ts';
import { sessionOf, type TestDevice } from '../provision.ts';
import { bridgeSecret } from './link.ts';
import { openSocket, type TestSocket } from './socket.ts';

const address = '203.0.113.7';
export const shardName = relayShardOf(address, readConfig(env).relayShards);
export const shard = () => env.RELAY_GATEWAY.getByName(shardName);
export const openRelay = (headers: Record<string, string> = {}) =>
  openSocket('/mqtt', { 'CF-Connecting-IP': address, ...headers });

export const authOf = ({ name, password }: TestDevice) => ({ action: 'auth', username: name, password });
export const authed = { action: 'auth', code: 200, message: 'success' };
export const subscribed = (topic: string) => ({ action: 'subscribe', topic, code: 200, message: 'success' });
export const forbidden = (topic: string) => ({ action: 'subscribe', topic, code: 403, message: 'forbidden' });
/** Goes through the queue of the socket, unlike the exact text that is answered without waking the shard. */
export const ping = '{"action": "ping"}';
export const pong = { action: 'pong' };

/** A socket that signed in as the device, or with the token of a user, and subscribed to the topics. */
export async function listenAs(who: TestDevice | { token: string }, ...topics: string[]): Promise<TestSocket> {
  const socket = await openRelay();
  await accepted(socket, 'token' in who ? { action: 'auth', token: who.token } : authOf(who));
  for (const topic of topics) await accepted(socket, { action: 'subscribe', topic });
  return socket;
}

async function accepted(socket: TestSocket, request: object): Promise<void> {
  const answer = (await socket.ask(request)) as { code: number };
  if (answer.code !== 200) throw new Error(`${JSON.stringify(request)} was answered ${JSON.stringify(answer)}`);
}

export async function tokenOf(userId: number): Promise<string> {
  return signAccessToken(readConfig(env), userId, 'session');
}

let lastSeq = 0;
export const itemOf = (topic: string, payload: string) => ({
  seq: ++lastSeq,
  topic,
  payload,
  receivedAtMs: Date.now(),
});

export async function report(...items: ReturnType<typeof itemOf>[]): Promise<void> {
  const { code } = await call('POST', uplinkPath, {
    headers: { Authorization: `Bearer ${bridgeSecret}` },
    body: { spoolId: 'spool', sentAtMs: Date.now(), items },
  });
  if (code !== 200) throw new Error(`the batch was answered ${code}`);
}

/** Announces a device once, so that the later messages of a test are the only ones. */
export async function comeOnline(device: DeviceIdentity): Promise<void> {
  await report(itemOf(topicOf(device, 'status'), '{"status":"online"}'));
}

export async function listenersOf({ productKey, deviceId }: DeviceIdentity) {
  const { subscriptions } = await sessionOf(deviceId).ingest(productKey, 'spool', []);
  return [...subscriptions];
}
