// The limits of claiming, handing on and pairing again (docs/limits.md), each reached.
import { env } from 'cloudflare:workers';
import { beforeAll, expect, it, vi } from 'vitest';
import { digestOf } from '../../../src/crypto/secrets.ts';
import { call, createUser, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { callLimited, callWith, limiter } from '../rig/limited.ts';
import { activate as activateOf, as } from '../rig/ownership.ts';
import { sessionOf } from '../rig/provision.ts';
import { passwordsInUsePerDevice } from '../../../src/domain/device/ownership/credentials.ts';

let maker: TestUser;
let productKey: string;
beforeAll(async () => {
  maker = await createUser();
  productKey = await makeProduct(maker);
});

let serials = 0;
const newSerial = () => `SN-${++serials}`;

const activate = (deviceSN: string, claimToken?: string) => activateOf(productKey, claimToken, { deviceSN });
const makeToken = ({ token }: TestUser, limits = '') =>
  callLimited<{ token: string; expiresAt: string }>(limits, 'POST', '/devices/claim-tokens', { token, body: {} });

/** The clock of everything that runs here. */
async function inTheFuture<T>(ms: number, run: () => Promise<T>): Promise<T> {
  const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + ms);
  return run().finally(() => clock.mockRestore());
}

const limits = 'claimTokensPerUser=2';

it('claim tokens of a user are bounded, also when made at once; one that is used or too old makes room', async () => {
  const user = await createUser();
  const answers = await Promise.all([1, 2, 3, 4].map(() => makeToken(user, limits)));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 400, 400]);
  expect(answers.find(({ status }) => status === 400)).toMatchObject({
    message: 'too_many_claim_tokens',
    data: null,
  });
  expect((await makeToken(await createUser(), limits)).status).toBe(200);
  const token = answers.find(({ status }) => status === 200)!.data.token;
  expect((await activate(newSerial(), token)).status).toBe(200);
  expect((await makeToken(user, limits)).status).toBe(200);
  expect((await makeToken(user, limits)).status).toBe(400);
  await env.DB.prepare('update claim_tokens set expires_at = 1 where user_id = ?').bind(user.userId).run();
  expect((await makeToken(user, limits)).status).toBe(200);
});

const from = '198.51.100.77';
const wrong = 'zzzzzzzzzzzzzzzzzzzz';
const allowed = 3;
const CLAIM_FAILURE_LIMIT = limiter(allowed);
const production = { RATE_LIMITS: 'production', CLAIM_FAILURE_LIMIT };

const claim = (token: string, address: string) =>
  callWith(production, 'POST', `/t/${token}/api/v1/devices/activate`, {
    headers: { 'CF-Connecting-IP': address },
    body: { productKey, deviceSN: newSerial() },
  });

it('wrong claim tokens are refused, then their address for a minute, and no other one', async () => {
  const counted = vi.spyOn(CLAIM_FAILURE_LIMIT, 'limit');
  const user = await createUser();
  const tokens: string[] = [];
  for (let number = 0; number < 3; number++) tokens.push((await makeToken(user)).data.token);
  for (let count = 0; count <= allowed; count++) {
    expect(await claim(wrong, from)).toMatchObject({ status: 400, message: 'invalid_claim_token' });
  }
  const blocked = await claim(tokens[0]!, from);
  expect(blocked).toMatchObject({ status: 429, message: 'too_many_requests' });
  const waitSeconds = Number(blocked.headers.get('Retry-After'));
  expect(waitSeconds).toBeGreaterThan(0);
  expect(waitSeconds).toBeLessThanOrEqual(60);
  expect(await claim(tokens[1]!, '198.51.100.78')).toMatchObject({ status: 200 });
  expect(counted, 'nothing more was counted').toHaveBeenCalledTimes(allowed + 1);
  expect(await inTheFuture(60_001, () => claim(tokens[0]!, from)), 'the token was not used up').toMatchObject({
    status: 200,
  });
});

const offer = (user: TestUser, deviceId: string, limits: string) =>
  callLimited<{ expiresAt: string }>(limits, 'POST', `/devices/${deviceId}/transfer`, {
    token: user.token,
    body: { email: 'bert@example.test' },
  });

it('offers of a user are bounded; another one of the same device, a withdrawal and time make room', async () => {
  const user = await createUser();
  const devices: string[] = [];
  for (let number = 0; number < 3; number++) {
    devices.push((await activate(newSerial(), (await makeToken(user)).data.token)).data.deviceId);
  }
  const [first, second, third] = devices as [string, string, string];
  const limits = 'transferOffersPerUser=2';
  for (const deviceId of [first, second, first]) expect((await offer(user, deviceId, limits)).status).toBe(200);
  expect(await offer(user, third, limits)).toMatchObject({ status: 400, message: 'too_many_transfers', data: null });
  await call('DELETE', `/devices/${first}/transfer`, { token: user.token });
  expect((await offer(user, third, limits)).status).toBe(200);
  expect((await offer(user, first, limits)).status).toBe(400);
  await env.DB.prepare('update device_transfers set expires_at = 1 where device_id = ?').bind(second).run();
  expect((await offer(user, first, limits)).status).toBe(200);
});

it('a pairing window is open for the seconds of the setting', async () => {
  const user = await createUser();
  const deviceSN = newSerial();
  const { deviceId } = (await activate(deviceSN, (await makeToken(user)).data.token)).data;
  const path = `/devices/${deviceId}/pairing-window`;
  const opened = await callLimited<{ pairingUntil: string }>('pairingWindowSeconds=120', 'POST', path, as(user));
  expect(Math.abs(Date.parse(opened.data.pairingUntil) - Date.now() - 120_000)).toBeLessThan(60_000);
  expect((await activate(deviceSN)).status).toBe(200);
  expect(await inTheFuture(180_000, () => activate(deviceSN))).toMatchObject({
    status: 403,
    message: 'reactivation_not_allowed',
  });
});

it('messaging passwords in use are bounded: one more activation has to wait until one of them rests', async () => {
  const deviceSN = newSerial();
  const max = passwordsInUsePerDevice;
  let deviceId = '';
  for (let number = 0; number < max; number++) {
    const { data, status } = await activate(deviceSN);
    expect(status, String(number)).toBe(200);
    ({ deviceId } = data);
    const passwordDigest = await digestOf(data.mqtt.password);
    expect(await sessionOf(deviceId).authenticate({ productKey, passwordDigest })).toMatchObject({ ok: true });
  }
  const refused = await activate(deviceSN);
  expect(refused).toMatchObject({ status: 429, message: 'too_many_requests', data: null });
  const waitSeconds = Number(refused.headers.get('Retry-After'));
  expect(waitSeconds).toBeGreaterThan(0);
  const { data } = await call<{ list: object[] }>('GET', `/devices/${deviceId}/events`, { token: maker.token });
  expect(data.list).toContainEqual(
    expect.objectContaining({ status: 'activation_refused', reason: 'too_many_in_use', count: 1 }),
  );
  expect((await inTheFuture(waitSeconds * 1000, () => activate(deviceSN))).status).toBe(200);
});
