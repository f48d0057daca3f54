// Users, products and devices that change hands. Asserts nothing.
import { digestOf } from '../../../src/crypto/secrets.ts';
import { wireErrorOf } from '../../../src/domain/refusal.ts';
import { parseMessagingName } from '../../../src/domain/topics.ts';
import { call, createUser, makeProduct, type Answer, type TestUser } from './clients/client.ts';
import { sessionOf, reportConnected } from './provision.ts';

export type Activation = { deviceId: string; deviceSecret: string; mqtt: { username: string; password: string } };
export type Event = { status: string; reason: string; time: string; address?: string | null; count?: number };

/** Who makes the products. */
export let maker: TestUser;
/** Who claims devices. */
export let anna: TestUser;
/** Who has none at first. */
export let bert: TestUser;
export async function signUpUsers(): Promise<void> {
  [maker, anna, bert] = await Promise.all([createUser(), createUser(), createUser()]);
}

export const createProduct = (more: object = {}) => makeProduct(maker, { controlMode: 'toggle', ...more });

export async function tokenOf(user: TestUser): Promise<string> {
  const { data, message } = await call<{ token: string }>('POST', '/devices/claim-tokens', { token: user.token });
  if (message !== 'success') throw new Error(`no claim token: ${message}`);
  return data.token;
}

const home = { 'CF-Connecting-IP': '203.0.113.9' };
export const abroad = { 'CF-Connecting-IP': '198.51.100.7' };
export function activate(
  productKey: string,
  token?: string,
  more: object = {},
  headers = home,
): Promise<Answer<Activation>> {
  const body = { productKey, deviceSN: 'SN-1', ...more };
  const path = token === undefined ? '/devices/activate' : `/t/${token}/api/v1/devices/activate`;
  return call('POST', path, { body, headers });
}

/** A device that Anna has claimed. */
export async function claimed(more: object = {}): Promise<Activation & { productKey: string }> {
  const productKey = await createProduct(more);
  const { data, message } = await activate(productKey, await tokenOf(anna));
  if (message !== 'success') throw new Error(`not claimed: ${message}`);
  return { ...data, productKey };
}

export async function logIn({ username, password }: Activation['mqtt']): Promise<string> {
  const { productKey, deviceId } = parseMessagingName(username)!;
  const outcome = await sessionOf(deviceId).authenticate({ productKey, passwordDigest: await digestOf(password) });
  if (!outcome.ok) return wireErrorOf(outcome.refusal).message;
  await reportConnected({ deviceId });
  return 'accepted';
}

export const as = (user: TestUser) => ({ token: user.token, headers: home });
export const isWorking = async (device: Activation) => (await logIn(device.mqtt)) === 'accepted';
export const openWindow = async (user: TestUser, deviceId: string, body: object = {}) =>
  (await call<{ token: string }>('POST', `/devices/${deviceId}/pairing-window`, { ...as(user), body })).data;
export async function handOver(deviceId: string, from = anna, to = bert): Promise<unknown> {
  await call('POST', `/devices/${deviceId}/transfer`, { ...as(from), body: { email: to.email } });
  return (await call<object>('POST', `/devices/${deviceId}/transfer/accept`, as(to))).data;
}
export const read = (user: TestUser, deviceId: string) => call('GET', `/devices/${deviceId}/status`, as(user));
export async function eventsOf(user: TestUser, deviceId: string): Promise<Event[]> {
  const { data } = await call<{ list: Event[] }>('GET', `/devices/${deviceId}/events?size=100`, as(user));
  return data.list;
}
export async function listed(user: TestUser): Promise<string[]> {
  const { data } = await call<{ list: { deviceId: string }[]; total: number }>('GET', '/devices?size=100', as(user));
  if (data.total !== data.list.length) throw new Error(`a list of ${data.list.length} says ${data.total}`);
  return data.list.map(({ deviceId }) => deviceId);
}
export const refused = { status: 403, message: 'reactivation_not_allowed', data: null };
