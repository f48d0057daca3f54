// Whose a device is (decision: ownership): claimed through the service address, released, handed on; what a known serial
// needs to activate again.
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { digestOf } from '../../src/crypto/secrets.ts';
import { wireErrorOf } from '../../src/domain/refusal.ts';
import { parseMessagingName } from '../../src/domain/topics.ts';
import { call, createUser, type Answer, type TestUser } from '../rig/workerd/client.ts';
import { sessionOf } from '../rig/workerd/provision.ts';

type Activation = { deviceId: string; deviceSecret: string; mqtt: { username: string; password: string } };
type Event = { status: string; reason: string; time: string; address?: string | null; count?: number };

let maker: TestUser;
let anna: TestUser;
let bert: TestUser;
beforeAll(async () => {
  [maker, anna, bert] = await Promise.all([createUser(), createUser(), createUser()]);
});

let count = 0;
async function createProduct(more: object = {}): Promise<string> {
  const productKey = `own-${++count}`;
  const body = { productKey, name: 'Switch', controlMode: 'toggle', ...more };
  expect((await call('POST', '/products', { token: maker.token, body })).code).toBe(200);
  return productKey;
}

async function tokenOf(user: TestUser): Promise<string> {
  const { data, message } = await call<{ token: string }>('POST', '/devices/claim-tokens', { token: user.token });
  expect(message).toBe('success');
  return data.token;
}

function activate(productKey: string, token?: string, more: object = {}): Promise<Answer<Activation>> {
  const body = { productKey, deviceSN: 'SN-1', ...more };
  const headers = { 'CF-Connecting-IP': '203.0.113.9' };
  return call('POST', token === undefined ? '/devices/activate' : `/t/${token}/api/v1/devices/activate`, {
    body,
    headers,
  });
}

/** A device of Anna's. */
async function claimed(more: object = {}): Promise<Activation & { productKey: string }> {
  const productKey = await createProduct(more);
  const { data, code } = await activate(productKey, await tokenOf(anna));
  expect(code).toBe(200);
  return { ...data, productKey };
}

async function logIn({ username, password }: Activation['mqtt']): Promise<string> {
  const { productKey, deviceId } = parseMessagingName(username)!;
  const outcome = await sessionOf(deviceId).authenticate({ productKey, passwordDigest: await digestOf(password) });
  if (!outcome.ok) return wireErrorOf(outcome.refusal).message;
  await sessionOf(deviceId).reportConnection({ kind: 'connected', sessionStartedAtMs: Date.now() });
  return 'accepted';
}

const as = (user: TestUser) => ({ token: user.token });
const read = (user: TestUser, deviceId: string) => call('GET', `/devices/${deviceId}/status`, as(user));
async function eventsOf(user: TestUser, deviceId: string): Promise<Event[]> {
  const { data } = await call<{ list: Event[] }>('GET', `/devices/${deviceId}/events?size=100`, as(user));
  return data.list;
}
async function listed(user: TestUser): Promise<string[]> {
  const { data } = await call<{ list: { deviceId: string }[]; total: number }>('GET', '/devices?size=100', as(user));
  expect(data.total, 'the total is that of the list').toBe(data.list.length);
  return data.list.map(({ deviceId }) => deviceId);
}
const refused = { status: 403, message: 'reactivation_not_allowed', data: null };

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

describe("the product's owner", () => {
  it('sees a claimed device in figures, may disable and enable it, and nothing else', async () => {
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
      data: { status: 'disabled', name: 'Switch SN-1', lastOnlineAt: null },
    });
    const { data: own } = await call<{ projectId: string }>('GET', `/devices/${deviceId}`, as(anna));
    expect(own.projectId, "the answer has not its owner's project").not.toBe(disabled.data.projectId);
    expect(await logIn(mqtt)).toBe('device_disabled');
    await call('PATCH', `/devices/${deviceId}`, { ...as(maker), body: { disabled: false } });
    expect(await logIn(mqtt)).toBe('accepted');
    const forbidden: [string, string, object?][] = [
      ['GET', ''],
      ['GET', '/status'],
      ['GET', '/events'],
      ['GET', '/properties'],
      ['GET', '/commands'],
      ['POST', '/control', { action: 'toggle' }],
      ['PATCH', '', { name: 'mine' }],
      ['POST', '/credentials'],
      ['POST', '/release'],
      ['POST', '/transfer', { email: bert.email }],
      ['POST', '/pairing-window'],
      ['DELETE', ''],
    ];
    for (const [method, path, body] of forbidden) {
      const { status } = await call(method, `/devices/${deviceId}${path}`, { ...as(maker), body });
      expect(status, `${method} ${path}`).toBe(403);
    }
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

  it('closes its window after the time', async () => {
    const { deviceId, productKey } = await claimed();
    await call('POST', `/devices/${deviceId}/pairing-window`, as(anna));
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 900_001);
    expect(await activate(productKey)).toMatchObject(refused);
    now.mockRestore();
  });
});

describe('reactivation', () => {
  it('open: needs nothing, claimed or not', async () => {
    const { productKey, mqtt } = await claimed({ reactivation: 'open' });
    const again = await activate(productKey);
    expect(again.status).toBe(200);
    expect(await logIn(mqtt)).toBe('accepted');
    expect(await logIn(again.data.mqtt)).toBe('accepted');
  });

  it("owner: needs the product's owner for a device that nobody has claimed", async () => {
    const productKey = await createProduct({ reactivation: 'owner' });
    const { data } = await activate(productKey);
    expect(await activate(productKey)).toMatchObject(refused);
    expect(await activate(productKey, await tokenOf(anna))).toMatchObject(refused);
    await call('POST', `/devices/${data.deviceId}/pairing-window`, as(maker));
    expect(await activate(productKey)).toMatchObject({ status: 200 });
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
    expect(await activate(productKey)).toMatchObject(refused);
  });

  it('may be changed and set back', async () => {
    const { productKey } = await claimed();
    const set = (reactivation: unknown) =>
      call('PUT', `/products/${productKey}`, { ...as(maker), body: { reactivation } });
    expect(await set('open')).toMatchObject({ data: { reactivation: 'open', activation: 'open' } });
    expect(await activate(productKey)).toMatchObject({ status: 200 });
    expect(await set(null)).toMatchObject({ data: { reactivation: null } });
    expect(await activate(productKey)).toMatchObject(refused);
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

describe('releasing', () => {
  it('ends credentials and sessions at once, wipes what was known, and leaves an unclaimed device', async () => {
    const { deviceId, productKey, mqtt } = await claimed();
    await logIn(mqtt);
    await call('PATCH', `/devices/${deviceId}`, { ...as(anna), body: { name: 'Bedroom' } });
    expect(await call('POST', `/devices/${deviceId}/release`, as(anna))).toMatchObject({ data: { deviceId } });
    expect(await logIn(mqtt)).toBe('invalid_password');
    expect((await read(anna, deviceId)).status).toBe(403);
    expect(await listed(anna)).not.toContain(deviceId);
    expect(await listed(maker)).toContain(deviceId);
    expect(await call('GET', `/devices/${deviceId}`, as(maker))).toMatchObject({ data: { name: 'Switch SN-1' } });
    expect(await read(maker, deviceId)).toMatchObject({ data: { online: false, position: null, lastOnlineAt: null } });
    expect(await eventsOf(maker, deviceId)).toMatchObject([
      { status: 'login_refused' },
      { status: 'ownership', reason: 'released', address: null },
    ]);
    const figures = await call('GET', `/products/${productKey}/figures`, as(maker));
    expect(figures.data).toMatchObject({ devices: 1, claimed: 0 });
  });

  it('story: buy second-hand, pair anew; the former owner is shut out', async () => {
    const { deviceId, productKey, mqtt } = await claimed();
    await logIn(mqtt);
    // Sold without a release: the buyer cannot take it.
    expect(await activate(productKey, await tokenOf(bert))).toMatchObject(refused);
    await call('POST', `/devices/${deviceId}/release`, as(anna));
    const { data: device } = await activate(productKey, await tokenOf(bert));
    expect(device.deviceId).toBe(deviceId);
    expect(await logIn(device.mqtt)).toBe('accepted');
    expect(await read(bert, deviceId)).toMatchObject({ status: 200, data: { online: true } });
    expect((await call('PATCH', `/devices/${deviceId}`, { ...as(bert), body: { name: 'Hall' } })).status).toBe(200);
    for (const path of ['', '/status', '/events', '/commands']) {
      expect((await call('GET', `/devices/${deviceId}${path}`, as(anna))).status, path).toBe(403);
    }
    expect(await activate(productKey, await tokenOf(anna))).toMatchObject(refused);
    expect(await logIn(mqtt)).toBe('invalid_password');
    expect((await eventsOf(bert, deviceId)).map(({ reason }) => reason)).not.toContain('released');
  });

  it('and a claim at the same moment leave one truth', async () => {
    for (let round = 0; round < 6; round++) {
      const { deviceId, productKey } = await claimed();
      const token = await tokenOf(bert);
      const [release, claim] = await Promise.all([
        call('POST', `/devices/${deviceId}/release`, as(anna)),
        activate(productKey, token),
      ]);
      expect(release.status).toBe(200);
      const isBerts = claim.status === 200;
      if (!isBerts) expect(claim).toMatchObject(refused);
      expect((await read(bert, deviceId)).status).toBe(isBerts ? 200 : 403);
      expect((await read(anna, deviceId)).status).toBe(403);
      expect(await listed(isBerts ? bert : maker)).toContain(deviceId);
      if (isBerts) expect(await logIn(claim.data.mqtt)).toBe('accepted');
    }
  });
});

describe('a transfer', () => {
  const offer = (deviceId: string, email: string, user = anna) =>
    call('POST', `/devices/${deviceId}/transfer`, { ...as(user), body: { email } });
  const accept = (deviceId: string, user: TestUser) => call('POST', `/devices/${deviceId}/transfer/accept`, as(user));

  it('makes who accepts it the owner; the device goes on working with its password, and no other one', async () => {
    const { deviceId, productKey, mqtt } = await claimed();
    await logIn(mqtt);
    await call('POST', `/devices/${deviceId}/pairing-window`, as(anna));
    const { data: other } = await activate(productKey);
    expect(await offer(deviceId, bert.email.toUpperCase())).toMatchObject({ status: 200, data: { deviceId } });
    const incoming = await call('GET', '/devices/transfers', as(bert));
    expect(incoming).toMatchObject({ data: { total: 1, list: [{ deviceId, productKey, from: anna.email }] } });
    expect((await read(bert, deviceId)).status, 'not yet').toBe(403);
    expect(await accept(deviceId, bert)).toMatchObject({ status: 200, data: { deviceId } });
    expect(await read(bert, deviceId)).toMatchObject({ status: 200, data: { online: true } });
    expect((await read(anna, deviceId)).status).toBe(403);
    expect(await listed(bert)).toContain(deviceId);
    expect(await listed(anna)).not.toContain(deviceId);
    expect(await logIn(mqtt)).toBe('accepted');
    expect(await logIn(other.mqtt)).toBe('invalid_password');
    expect(await eventsOf(bert, deviceId)).toContainEqual(
      expect.objectContaining({ status: 'ownership', reason: 'transferred', address: expect.any(String) as string }),
    );
    expect(await activate(productKey), 'the window closed').toMatchObject(refused);
    expect(await call('GET', '/devices/transfers', as(bert))).toMatchObject({ data: { total: 0 } });
    expect(await accept(deviceId, bert), 'once').toMatchObject({ status: 404 });
  });

  it('to an e-mail without an account is answered like one to an account', async () => {
    const { deviceId } = await claimed();
    const shapeOf = ({ status, message, data }: Answer<unknown>) => [status, message, Object.keys(data as object)];
    const known = await offer(deviceId, bert.email);
    const unknown = await offer(deviceId, 'nobody@example.test');
    expect(shapeOf(unknown)).toEqual(shapeOf(known));
    expect(await call('GET', `/devices/${deviceId}/ownership`, as(anna))).toMatchObject({
      data: { transfer: { email: 'nobody@example.test' } },
    });
    expect(await accept(deviceId, bert), 'the second took the place of the first').toMatchObject({ status: 404 });
  });

  it('can be declined, withdrawn, and is over after seven days', async () => {
    const { deviceId } = await claimed();
    await offer(deviceId, bert.email);
    expect((await call('POST', `/devices/${deviceId}/transfer/decline`, as(bert))).status).toBe(200);
    expect((await accept(deviceId, bert)).status).toBe(404);
    await offer(deviceId, bert.email);
    expect((await call('DELETE', `/devices/${deviceId}/transfer`, as(anna))).status).toBe(200);
    expect((await accept(deviceId, bert)).status).toBe(404);
    expect((await call('DELETE', `/devices/${deviceId}/transfer`, as(anna))).status).toBe(404);
    await offer(deviceId, bert.email);
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 7 * 24 * 3_600_000 + 1);
    expect(
      await sessionOf(deviceId).answerTransfer(bert.userId, 'x', { isAccepted: true, address: null }),
    ).toMatchObject({ ok: false });
    const expired = await accept(deviceId, bert);
    now.mockRestore();
    expect([401, 404], 'the token has expired as well').toContain(expired.status);
    const reasons = (await eventsOf(anna, deviceId)).map(({ reason }) => reason);
    expect(reasons).toEqual(
      expect.arrayContaining(['transfer_offered', 'transfer_declined', 'transfer_withdrawn']) as string[],
    );
  });

  it('refuses who was not asked, an own e-mail and what is no e-mail', async () => {
    const { deviceId } = await claimed();
    await offer(deviceId, bert.email);
    expect((await accept(deviceId, maker)).status).toBe(404);
    expect((await accept(deviceId, anna)).status).toBe(404);
    expect((await accept('dev_00000000', bert)).status).toBe(404);
    expect(await offer(deviceId, anna.email)).toMatchObject({ status: 400 });
    expect(await offer(deviceId, 'bert')).toMatchObject({ status: 400 });
    expect((await offer(deviceId, bert.email, bert)).status).toBe(403);
  });

  it('and a withdrawal, a release or a deletion at the same moment leave one truth', async () => {
    for (const [method, path] of [
      ['DELETE', '/transfer'],
      ['POST', '/release'],
      ['DELETE', ''],
    ] as const) {
      for (let round = 0; round < 3; round++) {
        const { deviceId } = await claimed();
        await offer(deviceId, bert.email);
        const [accepted, removed] = await Promise.all([
          accept(deviceId, bert),
          call(method, `/devices/${deviceId}${path}`, as(anna)),
        ]);
        const isBerts = (await read(bert, deviceId)).status === 200;
        if (path === '/transfer') expect(isBerts).toBe(accepted.status === 200);
        else if (removed.status === 200) expect(isBerts).toBe(false);
        expect(await listed(bert)).toEqual(
          isBerts ? expect.arrayContaining([deviceId]) : expect.not.arrayContaining([deviceId]),
        );
        if (isBerts) expect((await read(anna, deviceId)).status).toBe(403);
      }
    }
  });
});
