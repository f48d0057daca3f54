// Devices that nobody has claimed: what makes them their maker's, who sees their serial numbers, and a claim that is undone.
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { call, createUser, type CallOptions, type TestUser } from '../rig/clients/client.ts';
import { createKey } from '../rig/authorization-callers.ts';
import {
  activate,
  anna,
  as,
  bert,
  claimed,
  createProduct,
  eventsOf,
  listed,
  logIn,
  maker,
  read,
  refused,
  signUpUsers,
  tokenOf,
} from '../rig/ownership.ts';
import { sessionOf } from '../rig/provision.ts';
import { invite, share } from '../rig/sharing.ts';
import { inPerson } from '../../../src/domain/access.ts';

beforeAll(signUpUsers);

async function unclaimed() {
  const productKey = await createProduct();
  const deviceSN = 'SN-2026-0042';
  const { data } = await activate(productKey, undefined, { deviceSN });
  return { ...data, productKey, deviceSN };
}

const claimOf = async (user: TestUser, { productKey, deviceSN }: { productKey: string; deviceSN?: string }) =>
  activate(productKey, await tokenOf(user), deviceSN === undefined ? {} : { deviceSN });

describe('an unclaimed device', () => {
  it.each(['viewer', 'operator'])('lets no %s become its owner', async (role) => {
    const device = await unclaimed();
    await share(device, bert, role, maker);
    expect(await claimOf(bert, device)).toMatchObject(refused);
    expect(await read(maker, device.deviceId)).toMatchObject({ status: 200 });
    expect(await logIn(device.mqtt)).toBe('accepted');
  });

  const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString();
  it.each<[string, string, string, () => unknown]>([
    ['an invitation', 'POST', '/members', () => ({ email: 'friend@example.test', role: 'viewer' })],
    ['a new name', 'PATCH', '', () => ({ name: 'Hall' })],
    ['a guest link', 'POST', '/guest-links', () => ({ command: { action: 'toggle' }, expiresAt: inAnHour() })],
    ['a transfer offer', 'POST', '/transfer', () => ({ email: 'buyer@example.test' })],
  ])('is its maker’s after %s', async (_, method, path, body) => {
    const device = await unclaimed();
    await call(method, `/devices/${device.deviceId}${path}`, { ...as(maker), body: body() });
    const reasons = (await eventsOf(maker, device.deviceId)).map(({ reason }) => reason);
    expect(reasons).toContain('claimed');
    const { data: figures } = await call('GET', `/products/${device.productKey}/figures`, as(maker));
    expect(figures).toMatchObject({ claimed: 1 });
    expect(await claimOf(bert, device)).toMatchObject(refused);
    expect(await logIn(device.mqtt), 'its credentials stay').toBe('accepted');
  });

  it('is claimed by a manage key like by its maker, and not by a command or a refused request', async () => {
    const [device, other] = [await unclaimed(), await unclaimed()];
    const key = await createKey(maker, { scopes: ['manage'] });
    await call('PATCH', `/devices/${device.deviceId}`, { key, body: { name: 'Hall' } });
    expect(await claimOf(bert, device)).toMatchObject(refused);
    await call('POST', `/devices/${other.deviceId}/control?ttl=60`, { ...as(maker), body: { action: 'toggle' } });
    await invite(other, { email: 'friend@example.test' }, 'viewer', bert);
    await call('PATCH', `/devices/${other.deviceId}`, { ...as(maker), body: { disabled: false } });
    expect(await claimOf(bert, other)).toMatchObject({ status: 200 });
  });
});

describe('a serial number', () => {
  it('is shown whole to nobody who has not the right to manage', async () => {
    const device = await unclaimed();
    const viewer = await createUser();
    await share(device, viewer, 'viewer', maker);
    const manage = { key: await createKey(maker, { scopes: ['manage', 'read'] }) };
    const reader = { key: await createKey(maker, { scopes: ['read'] }) };
    const answersTo = async (who: CallOptions) => {
      const paths = [`/${device.deviceId}`, '?size=100', `?search=${device.deviceId}`, `/${device.deviceId}/status`];
      const answers = await Promise.all(paths.map((path) => call<unknown>('GET', `/devices${path}`, who)));
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      return JSON.stringify(answers.map(({ data }) => data));
    };
    for (const who of [as(viewer), reader]) {
      const seen = await answersTo(who);
      expect(seen).not.toContain(device.deviceSN);
      expect(seen).toContain('"deviceSN":"…0042"');
    }
    for (const who of [as(maker), manage]) expect(await answersTo(who)).toContain(device.deviceSN);
    const list = `/products/${device.productKey}/serials`;
    expect(await call('GET', list, reader)).toMatchObject({ status: 403, data: null });
    expect(await call('GET', list, manage)).toMatchObject({ data: { list: [{ deviceSN: device.deviceSN }] } });
  });

  it('is confirmed by no search of a member or a read key', async () => {
    const device = await unclaimed();
    const viewer = await createUser();
    await share(device, viewer, 'viewer', maker);
    const totalFor = async (who: CallOptions, text: string) =>
      (await call<{ total: number }>('GET', `/devices?search=${text}&productKey=${device.productKey}`, who)).data.total;
    const reader = { key: await createKey(maker, { scopes: ['read'] }) };
    for (const text of [device.deviceSN, 'SN-2', 'Switch%20SN']) {
      for (const who of [as(viewer), reader]) expect(await totalFor(who, text), text).toBe(0);
    }
    expect(await totalFor(as(maker), device.deviceSN)).toBe(1);
    expect(await totalFor(as(viewer), 'switch'), 'it is there').toBe(1);
  });
});

describe('a claim that the product’s owner undoes', () => {
  const undo = (deviceId: string, who: CallOptions) => call('DELETE', `/devices/${deviceId}/claim`, who);

  it('gives the device back, wiped, and shows nothing of the user who had claimed it', async () => {
    const { deviceId, productKey, mqtt } = await claimed({ reactivation: 'owner' });
    await logIn(mqtt);
    await call('PATCH', `/devices/${deviceId}`, { ...as(anna), body: { name: "Anna's hall" } });
    await share({ deviceId, productKey }, bert, 'operator', anna);
    expect(await undo(deviceId, as(maker))).toMatchObject({ status: 200, data: { deviceId } });
    for (const user of [anna, bert]) {
      expect((await read(user, deviceId)).status).toBe(403);
      expect(await listed(user)).not.toContain(deviceId);
    }
    expect(await logIn(mqtt)).not.toBe('accepted');
    expect(await call('GET', `/devices/${deviceId}`, as(maker))).toMatchObject({ data: { name: 'Switch -1' } });
    const events = await eventsOf(maker, deviceId);
    expect(events.map(({ reason }) => reason)).toContain('claim_undone');
    expect(JSON.stringify(events)).not.toMatch(/Anna|claimed"|joined|online/);
    expect(await activate(productKey, await tokenOf(bert)), 'as after a release').toMatchObject({ status: 200 });
  });

  it('is nobody else’s to undo, not with an API key, and not if the maker claimed it', async () => {
    const { deviceId } = await claimed();
    const key = await createKey(maker);
    for (const user of [anna, bert]) expect((await undo(deviceId, as(user))).status).toBe(403);
    expect((await undo(deviceId, { key })).status).toBe(401);
    const own = await unclaimed();
    expect((await undo(own.deviceId, as(maker))).status).toBe(403);
    expect(await read(anna, deviceId)).toMatchObject({ status: 200 });
  });

  it('stays for good after 14 days, also if the device was transferred meanwhile', async () => {
    const days = 24 * 3_600_000;
    const transferTo = async (user: TestUser, deviceId: string) => {
      await call('POST', `/devices/${deviceId}/transfer`, { ...as(anna), body: { email: user.email } });
      await call('POST', `/devices/${deviceId}/transfer/accept`, as(user));
    };
    const [early, late] = [await claimed(), await claimed()];
    await transferTo(bert, early.deviceId);
    expect(await undo(early.deviceId, as(maker)), 'an accomplice does not keep it').toMatchObject({ status: 200 });
    await transferTo(bert, late.deviceId);
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 14 * days);
    const undone = { kind: 'claim_undone', actor: inPerson(maker.userId), defaultName: '', address: null } as const;
    const outcome = await sessionOf(late.deviceId).decide(undone);
    clock.mockRestore();
    expect(outcome).toMatchObject({ ok: false, refusal: { kind: 'invalid_input', path: 'deviceId' } });
    expect(await read(bert, late.deviceId)).toMatchObject({ status: 200 });
  });
});
