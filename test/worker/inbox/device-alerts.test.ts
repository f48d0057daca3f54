// From a device or the account to GET /users/me/notices, through the real objects. Which notices the core raises, and when:
// test/unit/device/alerts.test.ts. What the inbox does with them: user-inbox.test.ts.
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { UserInbox } from '../../../src/objects/inbox/user-inbox.ts';
import { operate } from '../rig/accounts.ts';
import { createKey } from '../rig/authorization-callers.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, createUser, makeDevice, type TestUser } from '../rig/clients/client.ts';
import { report } from '../rig/commands.ts';
import { reportConnected, reportDisconnected, sessionOf, type TestDevice } from '../rig/provision.ts';
import { remove, share } from '../rig/sharing.ts';

type Shown = { cause: string; deviceId: string | null; deviceName: string | null; detail: object };

let owner: TestUser;
let friend: TestUser;
let device: TestDevice;
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  [owner, friend] = await Promise.all([createUser(), createUser()]);
  device = await makeDevice(owner, { offlineGraceSeconds: 0 });
  await share(device, friend, 'viewer', owner);
  await reportConnected(device);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const noticesOf = async ({ token }: TestUser) =>
  (await call<{ list: Shown[] }>('GET', '/users/me/notices', { token })).data.list;
const causesOf = async (user: TestUser) => (await noticesOf(user)).map(({ cause }) => cause);
const set = ({ token }: TestUser, body: object) => call('PUT', '/users/me/notice-settings', { token, body });
const fireLater = async (seconds: number) => {
  vi.setSystemTime(Date.now() + seconds * 1000);
  await runDurableObjectAlarm(sessionOf(device.deviceId));
};

it('an absence is told by the settings that were put while it lasted, and taken back', async () => {
  await reportDisconnected(device);
  await set(friend, { offlineAfterSeconds: 60 });
  await fireLater(75);
  const { data: named } = await call<{ name: string }>('GET', `/devices/${device.deviceId}`, { token: owner.token });
  const about = { cause: 'offline', deviceId: device.deviceId, deviceName: named.name };
  await expect.poll(() => noticesOf(friend)).toMatchObject([about]);
  expect(await causesOf(owner)).toEqual([]);
  await fireLater(600);
  await expect.poll(() => causesOf(owner)).toEqual(['offline']);
  await reportConnected(device);
  await expect.poll(() => causesOf(owner)).toEqual([]);
  await expect.poll(() => causesOf(friend)).toEqual([]);
});

it('a notice is told again to an inbox that failed, and taken back from a member who leaves', async () => {
  await Promise.all([owner, friend].map((user) => set(user, { offlineAfterSeconds: 60 })));
  await reportDisconnected(device);
  const failing = vi.spyOn(UserInbox.prototype, 'change').mockRejectedValue(new Error('away'));
  await fireLater(75);
  await vi.waitFor(() => expect(failing).toHaveBeenCalledTimes(2));
  failing.mockRestore();
  await fireLater(60);
  await expect.poll(() => causesOf(friend)).toEqual(['offline']);
  await remove(device, friend, owner);
  await expect.poll(() => causesOf(friend)).toEqual([]);
  await expect.poll(() => causesOf(owner)).toEqual(['offline']);
  await call('DELETE', `/devices/${device.deviceId}`, { token: owner.token });
  await expect.poll(() => causesOf(owner)).toEqual([]);
});

it('a movement by hand is told to a user who wants to hear of it', async () => {
  await set(friend, { handHours: { from: '00:00', to: '00:00', zone: 'UTC' } });
  await bringUp(device, report({ position: 'up' }), report({ position: 'down' }));
  await expect.poll(() => noticesOf(friend)).toMatchObject([{ cause: 'moved_by_hand', detail: { position: 'down' } }]);
  expect(await causesOf(owner)).toEqual([]);
});

it('what gives somebody access to the account is told, until the account is deleted', async () => {
  await createKey(owner);
  await expect
    .poll(() => noticesOf(owner))
    .toMatchObject([{ cause: 'security', deviceId: null, detail: { event: 'key_made' } }]);
  await operate('/accounts/delete', { name: owner.email });
  const inbox = env.USER_INBOX.getByName(`user-${owner.userId}`);
  expect(await runInDurableObject(inbox, async (_, { storage }) => (await storage.list()).size)).toBe(0);
});
