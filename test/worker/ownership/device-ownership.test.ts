// What is whose (decision: ownership): what makes an unclaimed device its maker's, who sees serial numbers, the product's owner
// beside the owner of a claimed device, and what a known serial needs to activate again. And that activations at the same moment as a deletion leave one truth (contract 4.3).
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { createKey } from '../rig/authorization-callers.ts';
import { call, createUser, type CallOptions, type TestUser } from '../rig/clients/client.ts';
import {
  abroad,
  activate,
  anna,
  as,
  bert,
  claimed,
  createProduct,
  eventsOf,
  isWorking,
  logIn,
  maker,
  openWindow,
  refused,
  signUpUsers,
  tokenOf,
} from '../rig/ownership.ts';
import { invite, share } from '../rig/sharing.ts';

beforeAll(signUpUsers);

async function unclaimed() {
  const productKey = await createProduct();
  const deviceSN = 'SN-2026-0042';
  const { data } = await activate(productKey, undefined, { deviceSN });
  return { ...data, productKey, deviceSN };
}

const claimByBert = async ({ productKey, deviceSN }: { productKey: string; deviceSN: string }) =>
  activate(productKey, await tokenOf(bert), { deviceSN });

describe('an unclaimed device', () => {
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
    expect(await claimByBert(device)).toMatchObject(refused);
    expect(await logIn(device.mqtt), 'its credentials stay').toBe('accepted');
  });

  it('is claimed by a manage key like by its maker, and not by a command or a refused request', async () => {
    const [device, other] = [await unclaimed(), await unclaimed()];
    const key = await createKey(maker, { scopes: ['manage'] });
    await call('PATCH', `/devices/${device.deviceId}`, { key, body: { name: 'Hall' } });
    expect(await claimByBert(device)).toMatchObject(refused);
    await call('POST', `/devices/${other.deviceId}/control?ttl=60`, { ...as(maker), body: { action: 'toggle' } });
    await invite(other, { email: 'friend@example.test' }, 'viewer', bert);
    await call('PATCH', `/devices/${other.deviceId}`, { ...as(maker), body: { disabled: false } });
    expect(await claimByBert(other)).toMatchObject({ status: 200 });
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

it("the product's owner sees a claimed device in figures, may disable and enable it", async () => {
  const { deviceId, productKey, mqtt } = await claimed();
  await call('PATCH', `/devices/${deviceId}`, { ...as(anna), body: { name: "Anna's hall" } });
  await logIn(mqtt);
  await vi.waitFor(async () => {
    const figures = await call('GET', `/products/${productKey}/figures`, as(maker));
    expect(figures.data).toEqual({ devices: 1, online: 1, claimed: 1, activatedToday: 1 });
  });
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

describe('activation races', () => {
  it('with a deletion never leave credentials without a record', async () => {
    const productKey = await createProduct();
    for (let round = 0; round < 8; round++) {
      const first = await activate(productKey, undefined, { deviceSN: `race-${round}` });
      const [again] = await Promise.all([
        activate(productKey, undefined, { deviceSN: `race-${round}` }),
        call('DELETE', `/devices/${first.data.deviceId}`, as(maker)),
      ]);
      expect(again.status).toBe(200);
      const record = await call('GET', `/devices/${again.data.deviceId}`, as(maker));
      expect(await logIn(again.data.mqtt)).toBe(record.status === 200 ? 'accepted' : 'device_not_found');
      expect(await logIn(first.data.mqtt)).toBe(
        record.status === 200 && again.data.deviceId === first.data.deviceId ? 'accepted' : 'device_not_found',
      );
    }
  });

  it('with the deletion of the product never leave a device under a deleted product', async () => {
    for (let round = 0; round < 8; round++) {
      const productKey = await createProduct();
      const [activation, deletion] = await Promise.all([
        activate(productKey),
        call('DELETE', `/products/${productKey}`, as(maker)),
      ]);
      expect([activation.status, deletion.status].sort()).toEqual([200, 400]);
      if (deletion.status === 200) expect(activation.message).toBe('invalid_product_key');
    }
  });
});
