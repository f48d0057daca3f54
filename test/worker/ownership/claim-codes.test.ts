// Claim codes: registered with serial numbers, and shown by the user who claims the device. And what a claim token is held to.
import { createExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { createApp } from '../../../src/app.ts';
import { createKey } from '../rig/authorization-callers.ts';
import { call, type CallOptions, type TestUser } from '../rig/clients/client.ts';
import {
  activate,
  anna,
  as,
  bert,
  createProduct,
  eventsOf,
  listed,
  maker,
  refused,
  signUpUsers,
  tokenOf,
} from '../rig/ownership.ts';

beforeAll(signUpUsers);

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
    const app = createApp();
    const used = new Map<string, number>();
    const CLAIM_FAILURE_LIMIT = {
      limit: ({ key }: { key: string }) => {
        used.set(key, (used.get(key) ?? 0) + 1);
        return Promise.resolve({ success: (used.get(key) ?? 0) <= 3 });
      },
    };
    const production = { ...env, RATE_LIMITS: 'production', CLAIM_FAILURE_LIMIT };
    const guess = async (address: string, deviceSN: string, code: string) => {
      const headers = { 'CF-Connecting-IP': address, Authorization: `Bearer ${bert.token}` };
      const body = JSON.stringify({ productKey, deviceSN, claimCode: code });
      const request = new Request('https://latchwork.test/api/v1/devices/claim-tokens', {
        method: 'POST',
        headers,
        body,
      });
      return (await app.fetch(request, production, createExecutionContext())).status;
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
    vi.restoreAllMocks();
  });
});

describe('a claim token that an API key made', () => {
  it('claims no device of another product than the key’s', async () => {
    const [own, other] = [await createProduct(), await withCode()];
    const key = await createKey(anna, { productKey: own });
    const { token } = (await ask({ key }, {})).data;
    expect(await activate(other, token)).toMatchObject({ status: 400, message: 'invalid_claim_token' });
    const byCode = { productKey: other, deviceSN: 'SN-1', claimCode };
    expect(await ask({ key }, byCode)).toMatchObject({ status: 403, message: 'forbidden' });
    const { deviceId } = (await activate(own, token)).data;
    expect(await call('GET', `/claim-tokens/${token}`, { key })).toMatchObject({ data: { deviceId } });
  });
});
