// Claim tokens (decision: ownership): a device activates with a token, whose user becomes the owner. Claim codes: registered
// with serial numbers, and shown by the user who claims the device.
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { createKey } from '../rig/authorization-callers.ts';
import { call, type CallOptions, type TestUser } from '../rig/clients/client.ts';
import { callWith, limiter } from '../rig/limited.ts';
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

  it('tells its user which device came with it', async () => {
    const productKey = await createProduct();
    const token = await tokenOf(anna);
    const look = () => call('GET', `/claim-tokens/${token}`, as(anna));
    expect(await look()).toMatchObject({ status: 200, data: { deviceId: null } });
    const { deviceId } = (await activate(productKey, token)).data;
    expect(await look()).toMatchObject({ status: 200, data: { deviceId } });
    // Taken from its user again.
    await call('POST', `/devices/${deviceId}/release`, as(anna));
    expect(await look()).toMatchObject({ data: { deviceId: null } });
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

  it('lives 15 minutes unless its user says otherwise, and is then refused like an unknown one', async () => {
    const productKey = await createProduct();
    const { data } = await call<{ token: string; expiresAt: string }>('POST', '/devices/claim-tokens', as(anna));
    expect(Math.abs(Date.parse(data.expiresAt) - Date.now() - 900_000)).toBeLessThan(5_000);
    const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 15 * 60_000 + 1);
    expect(await activate(productKey, data.token)).toMatchObject({ status: 400, message: 'invalid_claim_token' });
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
    expect(await read(maker, device.deviceId)).toMatchObject({ status: 403 });
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

const claimCode = 'K7RX-2MQ9-WD4T';

type Registered = { registered: number; list: { deviceSN: string; result: string }[] };

function register(productKey: string, serials: unknown, headers: Record<string, string> = {}) {
  const body = typeof serials === 'string' ? serials : { serials };
  return call<Registered>('POST', `/products/${productKey}/serials`, { ...as(maker), body, headers });
}

/** A product with the serial number SN-1, which has the claim code. */
async function withCode(more: object = {}): Promise<string> {
  const productKey = await createProduct(more);
  await register(productKey, [{ deviceSN: 'SN-1', claimCode }]);
  return productKey;
}

const ask = (who: CallOptions, body: object) =>
  call<{ token: string }>('POST', '/devices/claim-tokens', { ...who, body });
const tokenBy = async (user: TestUser, productKey: string, deviceSN = 'SN-1') =>
  (await ask(as(user), { productKey, deviceSN, claimCode })).data.token;
const codeRequired = { status: 403, message: 'claim_code_required', data: null };
const wrongCode = { status: 400, message: 'invalid_claim_code', data: null };

describe('a serial number with a claim code', () => {
  it('is claimed by nobody who knows the serial number alone', async () => {
    const productKey = await withCode({ activation: 'registered' });
    expect(await activate(productKey, await tokenOf(bert))).toMatchObject(codeRequired);
    expect(await call('GET', `/products/${productKey}/serials`, as(maker)), 'nothing changed').toMatchObject({
      data: { list: [{ deviceSN: 'SN-1', activatedAt: null, isClaimed: false, hasClaimCode: true }] },
    });
    expect(await activate(productKey), 'the contract asks for no token').toMatchObject({ status: 200 });
    expect(await activate(productKey, await tokenOf(bert))).toMatchObject(codeRequired);
    expect(await activate(productKey, await tokenOf(maker))).toMatchObject(codeRequired);
    const { data } = await activate(productKey, await tokenBy(anna, productKey));
    expect(await listed(anna)).toContain(data.deviceId);
    // Claimed, it asks for no code: for its owner and against others the rules of a claimed device hold.
    expect(await activate(productKey, await tokenOf(anna))).toMatchObject({ status: 200 });
    expect(await activate(productKey, await tokenBy(bert, productKey))).toMatchObject(refused);
  });

  it('is not claimed without the code after a release, before D1 knows of it either', async () => {
    const productKey = await withCode();
    const { deviceId } = (await activate(productKey, await tokenBy(anna, productKey))).data;
    await call('POST', `/devices/${deviceId}/release`, as(anna));
    await env.DB.prepare('update devices set claimed_at = 1 where device_id = ?').bind(deviceId).run();
    expect(await activate(productKey, await tokenOf(bert))).toMatchObject(codeRequired);
    expect((await eventsOf(maker, deviceId)).map(({ reason }) => reason)).toContain('no_claim_code');
    expect(await activate(productKey, await tokenBy(bert, productKey))).toMatchObject({ status: 200 });
  });

  it('gives a token that claims no other device', async () => {
    const productKey = await withCode();
    const token = await tokenBy(anna, productKey);
    const invalid = { status: 400, message: 'invalid_claim_token', data: null };
    expect(await activate(productKey, token, { deviceSN: 'SN-2' })).toMatchObject(invalid);
    expect(await activate(await withCode(), token)).toMatchObject(invalid);
    expect(await activate(productKey, token)).toMatchObject({ status: 200 });
  });

  it('does not tell a wrong code from an unknown serial number', async () => {
    const productKey = await withCode();
    await register(productKey, ['SN-2']);
    const right = { productKey, deviceSN: 'SN-1', claimCode };
    const wrong: object[] = [
      { claimCode: 'K7RX-2MQ9-WD4U' },
      { deviceSN: 'SN-2' },
      { deviceSN: 'SN-3' },
      { productKey: 'no-such-product' },
      { productKey: await createProduct() },
    ];
    for (const change of wrong) expect(await ask(as(anna), { ...right, ...change })).toMatchObject(wrongCode);
    for (const missing of ['productKey', 'deviceSN', 'claimCode']) {
      expect(await ask(as(anna), { ...right, [missing]: undefined })).toMatchObject({ status: 400 });
    }
    expect((await ask(as(anna), right)).status).toBe(200);
  });

  it('is not guessed: an address and a serial number have few attempts a minute', async () => {
    const productKey = await withCode();
    const production = { RATE_LIMITS: 'production', CLAIM_FAILURE_LIMIT: limiter(3) };
    const guess = async (address: string, deviceSN: string, code: string) => {
      const headers = { 'CF-Connecting-IP': address };
      const asked = { token: bert.token, headers, body: { productKey, deviceSN, claimCode: code } };
      return (await callWith(production, 'POST', '/devices/claim-tokens', asked)).status;
    };
    for (let at = 0; at < 4; at++) expect(await guess('198.51.100.1', `SN-${at + 2}`, 'wrong code')).toBe(400);
    expect(await guess('198.51.100.1', 'SN-1', claimCode), 'the address waits').toBe(429);
    for (let at = 0; at < 3; at++) expect(await guess(`198.51.100.${at + 10}`, 'SN-1', 'wrong code')).toBe(400);
    expect(await guess('198.51.100.20', 'SN-1', claimCode), 'the serial number waits').toBe(429);
  });
});

describe('registering claim codes', () => {
  it('says of each line what happened, and sets no second code', async () => {
    const productKey = await createProduct();
    await activate(productKey, undefined, { deviceSN: 'OLD' });
    await register(productKey, ['PLAIN', { deviceSN: 'CODED', claimCode }]);
    const { data } = await register(productKey, [
      { deviceSN: 'NEW', claimCode },
      { deviceSN: 'PLAIN', claimCode },
      { deviceSN: 'CODED', claimCode },
      { deviceSN: 'CODED', claimCode },
      { deviceSN: 'OLD', claimCode },
      { deviceSN: 'SHORT', claimCode: '1234567' },
      { deviceSN: 'LONG', claimCode: 'x'.repeat(65) },
      { claimCode },
      null,
    ]);
    expect(data.list.map(({ result }) => result)).toEqual([
      'registered',
      'code_set',
      'exists',
      'repeated',
      'code_not_set',
      ...Array.from({ length: 4 }, () => 'invalid'),
    ]);
    expect(data.registered).toBe(1);
    const other = await register(productKey, [{ deviceSN: 'CODED', claimCode: 'another code' }, 'CODED']);
    expect(other.data.list.map(({ result }) => result)).toEqual(['code_not_set', 'repeated']);
    expect((await ask(as(anna), { productKey, deviceSN: 'CODED', claimCode })).status).toBe(200);
    expect((await ask(as(anna), { productKey, deviceSN: 'PLAIN', claimCode })).status).toBe(200);
    expect(await call('GET', `/products/${productKey}/serials`, as(maker))).toMatchObject({
      data: {
        list: ['NEW', 'CODED', 'PLAIN', 'OLD'].map((deviceSN) => ({ deviceSN, hasClaimCode: deviceSN !== 'OLD' })),
      },
    });
  });

  it('is possible with CSV, whose heading names the column', async () => {
    const productKey = await createProduct();
    const csv = { 'Content-Type': 'text/csv' };
    const lines = `deviceSN,claimCode\r\nSN-1,"${claimCode}"\r\n"SN-2";short\r\nSN-3`;
    const { data } = await register(productKey, lines, csv);
    expect(data.list.map(({ result }) => result)).toEqual(['registered', 'invalid', 'registered']);
    expect((await ask(as(anna), { productKey, deviceSN: 'SN-1', claimCode })).status).toBe(200);
    expect(await activate(productKey, await tokenOf(anna), { deviceSN: 'SN-3' })).toMatchObject({ status: 200 });
  });

  it('leaves the code in no answer, log line or column', async () => {
    const lines: unknown[] = [];
    for (const level of ['info', 'warn', 'error'] as const) {
      vi.spyOn(console, level).mockImplementation((...line) => void lines.push(line));
    }
    const productKey = await createProduct();
    const secret = 'never-to-be-seen';
    const serials = [{ deviceSN: 'SN-1', claimCode: secret }];
    const answers = [
      await register(productKey, serials),
      await register(productKey, serials),
      await ask(as(anna), { productKey, deviceSN: 'SN-1', claimCode: secret }),
      await ask(as(anna), { productKey, deviceSN: 'SN-2', claimCode: secret }),
      await call<unknown>('GET', `/products/${productKey}/serials`, as(maker)),
    ];
    const { results } = await env.DB.prepare('select * from devices where device_sn = ?').bind('SN-1').all();
    expect(JSON.stringify([answers, lines, results])).not.toContain(secret);
  });
});

it('a claim token that an API key made claims no device of another product than the key’s', async () => {
  const [own, other] = [await createProduct(), await withCode()];
  const key = await createKey(anna, { productKey: own });
  const { token } = (await ask({ key }, {})).data;
  expect(await activate(other, token)).toMatchObject({ status: 400, message: 'invalid_claim_token' });
  const byCode = { productKey: other, deviceSN: 'SN-1', claimCode };
  expect(await ask({ key }, byCode)).toMatchObject({ status: 403, message: 'forbidden' });
  const { deviceId } = (await activate(own, token)).data;
  expect(await call('GET', `/claim-tokens/${token}`, { key })).toMatchObject({ data: { deviceId } });
});
