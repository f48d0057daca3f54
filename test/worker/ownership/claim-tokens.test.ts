// Claim tokens (decision: ownership): a device activates with a token, whose user becomes the owner.
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { call, type TestUser } from '../rig/clients/client.ts';
import {
  maker,
  anna,
  bert,
  createProduct,
  tokenOf,
  activate,
  claimed,
  logIn,
  as,
  read,
  eventsOf,
  listed,
  refused,
  signUpUsers,
} from '../rig/ownership.ts';

beforeAll(signUpUsers);

describe('a claim token', () => {
  it('is a part of the service address, which makes its user the owner', async () => {
    const made = await call<{ token: string; apiUrl: string; expiresAt: string }>('POST', '/devices/claim-tokens', {
      ...as(anna),
      body: { expiresIn: 600 },
    });
    const { token, apiUrl, expiresAt } = made.data;
    expect(token).toMatch(/^[0-9a-hjkmnp-tv-z]{20}$/);
    expect(apiUrl).toMatch(new RegExp(`^https?://[^/]+/t/${token}$`));
    expect(Math.abs(Date.parse(expiresAt) - Date.now() - 600_000)).toBeLessThan(5_000);
    const productKey = await createProduct();
    const { data, status } = await activate(productKey, token);
    expect(status).toBe(200);
    expect(Object.keys(data).sort()).toEqual(['deviceId', 'deviceSecret', 'mqtt', 'topics']);
    expect(await logIn(data.mqtt)).toBe('accepted');
    expect(await read(anna, data.deviceId)).toMatchObject({ status: 200, data: { online: true } });
    expect(await listed(anna)).toContain(data.deviceId);
    expect(await listed(maker)).not.toContain(data.deviceId);
    expect(await call('GET', `/devices/${data.deviceId}`, as(anna))).toMatchObject({ data: { deviceSN: 'SN-1' } });
  });

  it('lives 15 minutes unless its user says otherwise', async () => {
    const { data } = await call<{ expiresAt: string }>('POST', '/devices/claim-tokens', as(anna));
    expect(Math.abs(Date.parse(data.expiresAt) - Date.now() - 900_000)).toBeLessThan(5_000);
  });

  it('tells its user, and nobody else, which device came with it', async () => {
    const productKey = await createProduct();
    const token = await tokenOf(anna);
    const look = (user: TestUser, of = token) => call('GET', `/claim-tokens/${of}`, as(user));
    expect(await look(anna)).toMatchObject({ status: 200, data: { deviceId: null } });
    const { deviceId } = (await activate(productKey, token)).data;
    expect(await look(anna)).toMatchObject({ status: 200, data: { deviceId } });
    expect(await look(maker)).toMatchObject({ status: 403, message: 'forbidden', data: null });
    expect(await look(anna, 'x')).toMatchObject({ status: 404, message: 'not_found', data: null });
    // Taken from its user again.
    await call('POST', `/devices/${deviceId}/release`, as(anna));
    expect(await look(anna)).toMatchObject({ data: { deviceId: null } });
  });

  it('works again for the same serial, whose answer may have been lost, and for no other one', async () => {
    const productKey = await createProduct();
    const token = await tokenOf(anna);
    const [first, again] = [await activate(productKey, token), await activate(productKey, token)];
    expect(again.data.deviceId).toBe(first.data.deviceId);
    expect(await logIn(first.data.mqtt)).toBe('accepted');
    expect(await logIn(again.data.mqtt)).toBe('accepted');
    const other = await activate(productKey, token, { deviceSN: 'SN-2' });
    expect(other).toMatchObject({ status: 400, message: 'invalid_claim_token', data: null });
    expect(await activate(await createProduct(), token)).toMatchObject({ message: 'invalid_claim_token' });
  });

  it.each(['x', 'aaaaaaaaaaaaaaaaaaaa', 'AAAAAAAAAAAAAAAAAAAA', '%00', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'])(
    'that is unknown (%s) is 400 invalid_claim_token, and no device is made',
    async (token) => {
      const productKey = await createProduct();
      expect(await activate(productKey, token)).toMatchObject({ status: 400, message: 'invalid_claim_token' });
      expect(await call('GET', `/products/${productKey}/figures`, as(maker))).toMatchObject({ data: { devices: 0 } });
    },
  );

  it('that has expired is refused like an unknown one', async () => {
    const productKey = await createProduct();
    const token = await tokenOf(anna);
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 15 * 60_000 + 1);
    expect(await activate(productKey, token)).toMatchObject({ status: 400, message: 'invalid_claim_token' });
    now.mockRestore();
  });

  it('takes a device that nobody had claimed from its product, with everything that was known of it', async () => {
    const productKey = await createProduct();
    const { data: device } = await activate(productKey);
    expect(await logIn(device.mqtt)).toBe('accepted');
    expect(await read(maker, device.deviceId)).toMatchObject({ status: 200 });
    const { data: again } = await activate(productKey, await tokenOf(anna));
    expect(again.deviceId).toBe(device.deviceId);
    expect(await logIn(device.mqtt), 'issued before the claim').toBe('invalid_password');
    expect(await logIn(again.mqtt)).toBe('accepted');
    for (const path of ['status', 'events', 'properties', 'commands']) {
      const { status } = await call('GET', `/devices/${device.deviceId}/${path}`, as(maker));
      expect(status, path).toBe(403);
    }
    const events = await eventsOf(anna, device.deviceId);
    expect(events).toMatchObject([
      { status: 'online' },
      { status: 'login_refused', reason: 'revoked' },
      { status: 'ownership', reason: 'claimed', address: '203.0.113.9' },
      { status: 'activated', reason: 'open', address: '203.0.113.9', count: 1 },
    ]);
  });

  it('of a stranger takes no claimed device, not even while its pairing window is open', async () => {
    const { deviceId, productKey, mqtt } = await claimed();
    expect(await activate(productKey, await tokenOf(bert))).toMatchObject(refused);
    await call('POST', `/devices/${deviceId}/pairing-window`, as(anna));
    expect(await activate(productKey, await tokenOf(bert))).toMatchObject(refused);
    expect(await activate(productKey, await tokenOf(maker))).toMatchObject(refused);
    expect(await read(anna, deviceId)).toMatchObject({ status: 200 });
    expect(await logIn(mqtt)).toBe('accepted');
    const events = await eventsOf(anna, deviceId);
    expect(events).toContainEqual(
      expect.objectContaining({ status: 'activation_refused', reason: 'not_the_owner', count: 3 }),
    );
  });

  it('of two users at the same moment makes one of them the owner', async () => {
    for (let round = 0; round < 6; round++) {
      const productKey = await createProduct();
      if (round % 2 === 0) await activate(productKey);
      const tokens = [await tokenOf(anna), await tokenOf(bert)];
      const answers = await Promise.all(tokens.map((token) => activate(productKey, token)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 403]);
      const { deviceId, mqtt } = answers.find(({ status }) => status === 200)!.data;
      const winner = answers[0]!.status === 200 ? anna : bert;
      const loser = winner === anna ? bert : anna;
      expect((await read(winner, deviceId)).status).toBe(200);
      expect((await read(loser, deviceId)).status).toBe(403);
      expect(await logIn(mqtt)).toBe('accepted');
      expect(await listed(winner)).toContain(deviceId);
      expect(await listed(loser)).not.toContain(deviceId);
    }
  });
});
