// Users with devices, and sockets of the relay that follow all of them. Asserts nothing but that a step succeeded.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { topicOf, type DeviceIdentity } from '../../../src/domain/topics.ts';
import { relayShardOf } from '../../../src/objects/calls/stubs.ts';
import { readConfig } from '../../../src/config.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { provisionDevice } from './provision.ts';
import { comeOnline, itemOf, listenAs, shardName, tokenOf } from './clients/relay.ts';
import type { TestSocket } from './clients/socket.ts';

export const everything = '/sys/+/+/#';
export const otherAddress = otherShardAddress();
export const directoryOf = (userId: number) => env.FLEET_DIRECTORY.getByName(`user-${userId}`);

let lastUserId = 1_000;
/** Nobody else's. */
export const newUserId = () => ++lastUserId;

export async function listen(userId: number, ...topics: string[]): Promise<TestSocket> {
  return listenAs({ token: await tokenOf(userId) }, ...topics);
}

export const failure = (): never => {
  throw new Error('away');
};

export const reportOf = (device: DeviceIdentity, position: string) =>
  itemOf(topicOf(device, topicActions.propertyPost), JSON.stringify({ params: { position } }));
export const pushOf = (device: DeviceIdentity, position: string) => ({
  topic: topicOf(device, topicActions.propertyPost),
  payload: { params: { position } },
});

/** The announcements of these devices are over: later messages of a test are the only ones. */
export async function ownDevices(ownerId: number, count: number, productKey = 'switch') {
  const devices = await Promise.all(Array.from({ length: count }, () => provisionDevice({ ownerId, productKey })));
  for (const device of devices) await comeOnline(device);
  return devices;
}

/** A new user with one device, which is online. */
export async function userWithDevice() {
  const userId = newUserId();
  const [device] = await ownDevices(userId, 1);
  return { userId, device: device! };
}

export function sql(userId: number, statement: string) {
  return runInDurableObject(directoryOf(userId), (_, { storage }) => storage.sql.exec(statement).toArray());
}

export const registrations = (userId: number) => sql(userId, 'SELECT * FROM listener');
export const leases = async (userId: number) =>
  (await sql(userId, 'SELECT device_id FROM lease')).map(({ device_id }) => device_id);

export async function afterLease(run: () => Promise<unknown>): Promise<void> {
  const laterMs = Date.now() + readConfig(env).limits.fleetLeaseSeconds * 1000;
  const now = vi.spyOn(Date, 'now').mockReturnValue(laterMs);
  await run();
  now.mockRestore();
}

/** An address whose clients another relay shard serves. */
function otherShardAddress(): string {
  const { relayShards } = readConfig(env);
  const addresses = Array.from({ length: 100 }, (_, index) => `198.51.100.${index}`);
  return addresses.find((address) => relayShardOf(address, relayShards) !== shardName) ?? '';
}

/** Whatever is pushed before. */
export async function subscribe(socket: TestSocket, topic: string): Promise<unknown> {
  socket.send({ action: 'subscribe', topic });
  for (;;) {
    const frame = (await socket.next()) as { action?: string };
    if (frame.action === 'subscribe') return frame;
  }
}

/** The announcement may have come before the subscription, or after it. */
export async function frameAfterStatus(socket: TestSocket, device: DeviceIdentity): Promise<unknown> {
  const frame = (await socket.next()) as { topic?: string };
  return frame.topic === topicOf(device, 'status') ? socket.next() : frame;
}
