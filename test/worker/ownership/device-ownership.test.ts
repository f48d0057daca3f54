// What is whose (decision: ownership): the product's owner beside the owner of a claimed device, and what a known serial needs
// to activate again.
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { call, type TestUser } from '../rig/clients/client.ts';
import {
  maker,
  anna,
  abroad,
  isWorking,
  openWindow,
  createProduct,
  tokenOf,
  activate,
  claimed,
  logIn,
  as,
  eventsOf,
  refused,
  signUpUsers,
} from '../rig/ownership.ts';

beforeAll(signUpUsers);

describe("the product's owner", () => {
  it('sees a claimed device in figures, may disable and enable it', async () => {
    const { deviceId, productKey, mqtt } = await claimed();
    await call('PATCH', `/devices/${deviceId}`, { ...as(anna), body: { name: "Anna's hall" } });
    await logIn(mqtt);
    await vi.waitFor(
      async () => {
        const figures = await call('GET', `/products/${productKey}/figures`, as(maker));
        expect(figures.data).toEqual({ devices: 1, online: 1, claimed: 1, activatedToday: 1 });
      },
      { timeout: 8_000 },
    );
    const disable = { ...as(maker), body: { disabled: true } };
    const disabled = await call<{ projectId: string }>('PATCH', `/devices/${deviceId}`, disable);
    expect(disabled).toMatchObject({
      status: 200,
      data: { status: 'disabled', name: 'Switch -1', lastOnlineAt: null },
    });
    const { data: own } = await call<{ projectId: string }>('GET', `/devices/${deviceId}`, as(anna));
    expect(own.projectId, "the answer has not its owner's project").not.toBe(disabled.data.projectId);
    expect(await logIn(mqtt)).toBe('device_disabled');
    await call('PATCH', `/devices/${deviceId}`, { ...as(maker), body: { disabled: false } });
    expect(await logIn(mqtt)).toBe('accepted');
    expect(await call('GET', `/devices/${deviceId}`, as(anna))).toMatchObject({ data: { name: "Anna's hall" } });
  });
});

describe('a claimed device', () => {
  it('activates again inside a window of its owner, or with a token of its owner, and not otherwise', async () => {
    const { deviceId, productKey, mqtt } = await claimed();
    expect(await activate(productKey)).toMatchObject(refused);
    const opened = await call<{ pairingUntil: string }>('POST', `/devices/${deviceId}/pairing-window`, as(anna));
    expect(Math.abs(Date.parse(opened.data.pairingUntil) - Date.now() - 900_000)).toBeLessThan(5_000);
    const inWindow = await activate(productKey);
    expect(inWindow).toMatchObject({ status: 200, data: { deviceId } });
    await call('DELETE', `/devices/${deviceId}/pairing-window`, as(anna));
    expect(await activate(productKey)).toMatchObject(refused);
    const withToken = await activate(productKey, await tokenOf(anna));
    expect(withToken).toMatchObject({ status: 200, data: { deviceId } });
    for (const password of [mqtt, inWindow.data.mqtt, withToken.data.mqtt])
      expect(await logIn(password)).toBe('accepted');
    const reasons = (await eventsOf(anna, deviceId)).map(({ status, reason }) => `${status} ${reason}`);
    for (const reason of [
      'activated first',
      'activated in_window',
      'activated with_token',
      'activation_refused no_window',
      'ownership claimed',
      'ownership pairing_opened',
      'ownership pairing_closed',
    ]) {
      expect(reasons).toContain(reason);
    }
  });

  it('is not changed by an activation that was refused', async () => {
    const { deviceId, productKey } = await claimed();
    const before = await call('GET', `/devices/${deviceId}`, as(anna));
    expect(await activate(productKey, undefined, { firmwareVersion: '9.9.9', chipModel: 'x' })).toMatchObject(refused);
    const after = await call('GET', `/devices/${deviceId}`, as(anna));
    expect(after.data).toEqual(before.data);
  });

  it('lets no stranger of another network into its window, and shows that one was there', async () => {
    const { deviceId, productKey } = await claimed();
    const { token } = await openWindow(anna, deviceId);
    expect(await activate(productKey, undefined, {}, abroad)).toMatchObject(refused);
    expect(await eventsOf(anna, deviceId)).toContainEqual(
      expect.objectContaining({ reason: 'other_network', address: abroad['CF-Connecting-IP'] }),
    );
    expect(await activate(productKey, token, { deviceSN: 'SN-2' })).toMatchObject({ message: 'invalid_claim_token' });
    expect(await activate(productKey, token, {}, abroad), 'with the token of the window').toMatchObject({
      status: 200,
    });
    await openWindow(anna, deviceId, { anyNetwork: true });
    expect(await activate(productKey, undefined, {}, abroad)).toMatchObject({ status: 200 });
    expect(await eventsOf(anna, deviceId)).toContainEqual(
      expect.objectContaining({ reason: 'in_window', address: abroad['CF-Connecting-IP'] }),
    );
  });

  it('lets in nobody by its window after the first login, nor anybody who got a password there', async () => {
    const { deviceId, productKey } = await claimed();
    await openWindow(anna, deviceId);
    const [{ data: stranger }, { data: own }] = [await activate(productKey), await activate(productKey)];
    expect(await isWorking(own)).toBe(true);
    expect(await isWorking(stranger)).toBe(false);
    expect(await activate(productKey)).toMatchObject(refused);
    expect(await isWorking(own)).toBe(true);
  });

  it('closes its window after the time', async () => {
    const { deviceId, productKey } = await claimed();
    await call('POST', `/devices/${deviceId}/pairing-window`, as(anna));
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 900_001);
    expect(await activate(productKey)).toMatchObject(refused);
    now.mockRestore();
  });
});

describe('reactivation', () => {
  it('open: lets no stranger into a claimed device, unless its owner says so and until they take it back', async () => {
    const { deviceId, productKey, mqtt } = await claimed({ reactivation: 'open' });
    const say = (user: TestUser, reactivation: unknown) =>
      call('PATCH', `/devices/${deviceId}`, { ...as(user), body: { reactivation } });
    expect(await activate(productKey)).toMatchObject(refused);
    expect(await say(maker, 'open')).toMatchObject({ status: 403 });
    expect(await say(anna, 'open')).toMatchObject({ status: 200 });
    const again = await activate(productKey);
    expect(await logIn(mqtt)).toBe('accepted');
    expect(await logIn(again.data.mqtt)).toBe('accepted');
    expect(await say(anna, null)).toMatchObject({ status: 200 });
    expect(await activate(productKey)).toMatchObject(refused);
    const reasons = (await eventsOf(anna, deviceId)).map(({ reason }) => reason);
    expect(reasons).toEqual(expect.arrayContaining(['reactivation_opened', 'reactivation_closed']));
  });

  it('secret: needs the present device secret, which each activation renews', async () => {
    const productKey = await createProduct({ reactivation: 'secret' });
    const first = (await activate(productKey)).data.deviceSecret;
    for (const deviceSecret of [undefined, '', 'sk_wrong', 7, first.slice(0, -1), `${first}x`]) {
      expect(await activate(productKey, undefined, { deviceSecret })).toMatchObject(refused);
    }
    const second = await activate(productKey, undefined, { deviceSecret: first });
    expect(second.status).toBe(200);
    expect(await activate(productKey, undefined, { deviceSecret: first })).toMatchObject(refused);
    expect(await activate(productKey, undefined, { deviceSecret: second.data.deviceSecret })).toMatchObject({
      status: 200,
    });
  });

  it('never: only after the device was released', async () => {
    const { deviceId, productKey } = await claimed({ reactivation: 'never' });
    expect(await activate(productKey, await tokenOf(anna))).toMatchObject(refused);
    await call('POST', `/devices/${deviceId}/pairing-window`, as(anna));
    expect(await activate(productKey)).toMatchObject(refused);
    expect((await call('POST', `/devices/${deviceId}/release`, as(anna))).code).toBe(200);
    expect(await activate(productKey)).toMatchObject({ status: 200, data: { deviceId } });
    expect(await activate(productKey, await tokenOf(anna)), 'claimed again').toMatchObject({ status: 200 });
    expect(await activate(productKey)).toMatchObject(refused);
  });

  it('lets no maker open a device that others have claimed', async () => {
    const { deviceId, productKey, deviceSecret } = await claimed();
    const set = (reactivation: unknown) =>
      call('PUT', `/products/${productKey}`, { ...as(maker), body: { reactivation } });
    const needs = (reactivation: string) =>
      vi.waitFor(async () =>
        expect(await call('GET', `/devices/${deviceId}/ownership`, as(anna))).toMatchObject({ data: { reactivation } }),
      );
    expect(await set('open')).toMatchObject({ data: { reactivation: 'open', activation: 'open' } });
    expect(await activate(productKey)).toMatchObject(refused);
    await set('secret');
    await needs('secret');
    expect(await set(null)).toMatchObject({ data: { reactivation: null } });
    expect(await activate(productKey, undefined, { deviceSecret })).toMatchObject({ status: 200 });
    expect(await set('maybe')).toMatchObject({ status: 400 });
  });
});

describe('activation', () => {
  it('closed: takes no new serial, and lets known ones activate again', async () => {
    const productKey = await createProduct();
    await activate(productKey);
    await call('PUT', `/products/${productKey}`, { ...as(maker), body: { activation: 'closed' } });
    const other = await activate(productKey, undefined, { deviceSN: 'SN-2' });
    expect(other).toMatchObject({ status: 403, message: 'activation_not_allowed', data: null });
    expect(await activate(productKey, await tokenOf(anna), { deviceSN: 'SN-2' })).toMatchObject({ status: 403 });
    expect(await activate(productKey)).toMatchObject({ status: 200 });
  });
});
