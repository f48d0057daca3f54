// Devices that their owner shares, and what members ask. Asserts nothing.
import { beforeAll, beforeEach } from 'vitest';
import { call, createUser, makeProduct, type TestUser } from './clients/client.ts';

export type Device = { deviceId: string; productKey: string };
export type Listed = { total: number; list: { deviceId: string; role: string }[]; next?: string | null };

export let owner: TestUser;
/** The user that devices are shared with: a new one in each test. */
export let friend: TestUser;
/** Who has no part in any. */
export let stranger: TestUser;
export let productKey: string;
export let device: Device;

/** Users for all tests of a file, a friend and a device for each. */
export function prepareUsersAndDevice(): void {
  beforeAll(async () => {
    [owner, stranger] = await Promise.all([createUser(), createUser()]);
    productKey = await makeProduct(owner);
  });
  beforeEach(async () => {
    [friend, device] = await Promise.all([createUser(), activate()]);
  });
}

export async function activate(): Promise<Device> {
  const body = { productKey, deviceSN: crypto.randomUUID() };
  const { data } = await call<{ deviceId: string }>('POST', '/devices/activate', { body });
  return { deviceId: data.deviceId, productKey };
}

export const invite = ({ deviceId }: Device, { email }: { email: string }, role = 'viewer', by = owner) =>
  call<{ invitationId: string }>('POST', `/devices/${deviceId}/members`, { token: by.token, body: { email, role } });
export const accept = (invitationId: string, by: TestUser) =>
  call<{ deviceId: string; role: string }>('POST', `/invitations/${invitationId}/accept`, { token: by.token });
export const remove = ({ deviceId }: Device, { userId }: TestUser, by = owner) =>
  call('DELETE', `/devices/${deviceId}/members/${userId}`, { token: by.token });
export const statusFor = ({ deviceId }: Device, { token }: TestUser) =>
  call('GET', `/devices/${deviceId}/status`, { token });
export const listFor = async ({ token }: TestUser, query = '') =>
  (await call<Listed>('GET', `/devices${query}`, { token })).data;
export const incomingOf = async ({ token }: TestUser) =>
  (await call<{ total: number; list: { invitationId: string }[] }>('GET', '/invitations', { token })).data;

export async function share(device: Device, user: TestUser, role = 'viewer', by = owner): Promise<void> {
  const { data } = await invite(device, user, role, by);
  const { code } = await accept(data.invitationId, user);
  if (code !== 200) throw new Error(`not shared: ${code}`);
}
