// Devices of one owner that are sent commands, and a bridge that takes the commands. Asserts nothing.
import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test';
import { afterEach, beforeAll, beforeEach, vi } from 'vitest';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { TestBridge, type Said } from './clients/bridge.ts';
import { call, createUser, makeDevice, type Answer, type TestUser } from './clients/client.ts';
import { reportConnected as connect, reportDisconnected as disconnect, sessionOf } from './provision.ts';

const { propertyPost, propertySet } = topicActions;

export type Device = { productKey: string; deviceId: string };
export type Receipt = { commandId: string; elapsedMs?: number };
export type Command = {
  commandId: string;
  state: string;
  steps: Record<'accepted' | 'published' | 'brokerAcknowledged' | 'deviceAcknowledged' | 'confirmed', number | null>;
};
export type Message = { id: string; params: object };

export let owner: TestUser;
export let bridge: TestBridge;

export async function openBridge(): Promise<void> {
  bridge = await TestBridge.dialIn();
}
/** An owner for all tests of a file, and a bridge for each, after which the clock is the real one again. */
export function prepareOwnerAndBridge(): void {
  beforeAll(async () => void (owner = await createUser()));
  beforeEach(openBridge);
  afterEach(async () => {
    vi.restoreAllMocks();
    await bridge.close();
  });
}

export const activate = (controlMode = 'toggle'): Promise<Device> => makeDevice(owner, { controlMode });
export async function activateOnline(): Promise<Device> {
  const device = await activate();
  await connect(device);
  return device;
}

export { connect, disconnect };
export const control = ({ deviceId }: Device, body: unknown, query = '', headers = {}): Promise<Answer<Receipt>> =>
  call('POST', `/devices/${deviceId}/control${query}`, { token: owner.token, body, headers });
export const read = async ({ deviceId }: Device, commandId: string) =>
  (await call<Command>('GET', `/devices/${deviceId}/commands/${commandId}`, { token: owner.token })).data;
export const listOf = async ({ deviceId }: Device, query = '') =>
  (
    await call<{ list: Command[]; total: number }>('GET', `/devices/${deviceId}/commands${query}`, {
      token: owner.token,
    })
  ).data;
export const cancel = ({ deviceId }: Device, commandId: string): Promise<Answer<Command>> =>
  call('DELETE', `/devices/${deviceId}/commands/${commandId}`, { token: owner.token });
export const nextCommand = async (device: Device) => (await bridge.nextFor(device, propertySet)).body as Message;
export const unheard = (device: Device) => bridge.waitingFor(device, propertySet) as Message[];
export const reply = (id: string, code?: number): Said => ({ action: propertyPost, payload: replyOf(id, code) });
const replyOf = (id: string, code?: number) => ({ method: 'thing.service.property.set_reply', id, code });
export const report = (properties: object): Said => ({ action: propertyPost, payload: { params: properties } });
export const ring = ({ deviceId }: Device) => runDurableObjectAlarm(sessionOf(deviceId));
export const sleep = ({ deviceId }: Device) => evictDurableObject(sessionOf(deviceId));

export function setClock(atMs: number): void {
  vi.spyOn(Date, 'now').mockReturnValue(atMs);
}

export const up = { action: 'toggle', position: 'up' };
export const down = { action: 'toggle', position: 'down' };
