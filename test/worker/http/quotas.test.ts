// How much one user may store: products, product keys, devices, new serials by the hour, API keys, claim tokens, offers. Each
// quota is reached, by requests at the same time as well; some can be set for one user.
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { call, createUser, type Answer, type TestUser } from '../rig/clients/client.ts';
import { runScheduledJobs } from '../../../src/scheduled.ts';
import { callLimited, sendWith } from '../rig/limited.ts';
import { digestOf } from '../../../src/crypto/secrets.ts';
import { reportConnected, sessionOf } from '../rig/provision.ts';
import { insertRecords } from '../rig/records.ts';

const newKey = () => `quota-${crypto.randomUUID()}`;

function createProduct(owner: TestUser, productKey = newKey(), limits = ''): Promise<Answer<{ productKey: string }>> {
  return callLimited(limits, 'POST', '/products', { token: owner.token, body: { productKey, name: 'Switch' } });
}

async function deleteProduct(owner: TestUser, productKey: string): Promise<void> {
  await call('DELETE', `/products/${productKey}`, { token: owner.token });
}

function activate(
  productKey: string,
  deviceSN: string,
  limits = '',
): Promise<Answer<{ deviceId: string; mqtt: { password: string } }>> {
  return callLimited(limits, 'POST', '/devices/activate', { body: { productKey, deviceSN } });
}

/** The statement that docs/operations.md gives an operator. */
async function setLimit({ email }: TestUser, name: string, value: number): Promise<void> {
  await env.DB.prepare(
    `INSERT INTO user_limits (user_id, name, value) SELECT id, ?, ? FROM users WHERE folded_email = ?
    ON CONFLICT (user_id, name) DO UPDATE SET value = excluded.value`,
  )
    .bind(name, value, email)
    .run();
}

function inParallel<T>(count: number, run: (index: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => run(index)));
}

const statusesOf = (answers: { status: number }[]) => answers.map(({ status }) => status).sort();

describe('products of a user', () => {
  it('are bounded, also when they are created at once, and there is room again after a deletion', async () => {
    const owner = await createUser();
    const answers = await inParallel(8, () => createProduct(owner, newKey(), 'productsPerUser=5'));
    expect(statusesOf(answers)).toEqual([200, 200, 200, 200, 200, 400, 400, 400]);
    expect(answers.find(({ status }) => status === 400)).toMatchObject({ message: 'too_many_products', data: null });
    const made = answers.find(({ status }) => status === 200)!.data.productKey;
    // One that exists is named before one that is too many.
    expect((await createProduct(owner, made, 'productsPerUser=5')).message).toBe('product_key_exists');
    await deleteProduct(owner, made);
    expect((await createProduct(owner, newKey(), 'productsPerUser=5')).status).toBe(200);
    expect((await createProduct(owner, newKey(), 'productsPerUser=5')).status).toBe(400);
    expect((await createProduct(await createUser(), newKey(), 'productsPerUser=5')).status).toBe(200);
  });

  it('are bounded together with deleted ones, of which the own can be taken up again', async () => {
    const owner = await createUser();
    const keys = [newKey(), newKey(), newKey(), newKey(), newKey()];
    for (const key of keys) {
      expect((await createProduct(owner, key, 'productsPerUser=1')).status).toBe(200);
      await deleteProduct(owner, key);
    }
    expect(await createProduct(owner, newKey(), 'productsPerUser=1')).toMatchObject({
      status: 400,
      message: 'too_many_products: those that were deleted count, too',
    });
    expect((await createProduct(owner, keys[1], 'productsPerUser=1')).status).toBe(200);
    const other = await createUser();
    expect((await createProduct(other, keys[0], 'productsPerUser=1')).message).toBe('product_key_exists');
  });
});

it('devices of a product are bounded, also when they activate at once, and those that are known get in', async () => {
  const owner = await createUser();
  const { productKey } = (await createProduct(owner)).data;
  const limits = 'devicesPerProduct=4';
  const answers = await inParallel(9, (index) => activate(productKey, `SN-${index}`, limits));
  expect(statusesOf(answers)).toEqual([200, 200, 200, 200, 400, 400, 400, 400, 400]);
  expect(answers.find(({ status }) => status === 400)).toMatchObject({ message: 'too_many_devices', data: null });
  const known = answers.findIndex(({ status }) => status === 200);
  const refused = answers.findIndex(({ status }) => status === 400);
  expect((await activate(productKey, `SN-${known}`, limits)).data.deviceId).toBe(answers[known]!.data.deviceId);
  await call('DELETE', `/devices/${answers[known]!.data.deviceId}`, { token: owner.token });
  expect((await activate(productKey, `SN-${refused}`, limits)).status).toBe(200);
  expect((await activate(productKey, `SN-${known}`, limits)).message).toBe('too_many_devices');
  const { productKey: otherKey } = (await createProduct(owner)).data;
  expect((await activate(otherKey, 'SN-1', limits)).status).toBe(200);
});

describe('new serials of a product within an hour', () => {
  const limits = 'newSerialsPerProductHour=3';

  it('are bounded, and those that are known are not counted', async () => {
    const { productKey } = (await createProduct(await createUser())).data;
    const answers = await inParallel(7, (index) => activate(productKey, `SN-${index}`, limits));
    // The hour may turn while they activate.
    const letIn = answers.filter(({ status }) => status === 200).length;
    expect([3, 4, 5, 6]).toContain(letIn);
    const refused = answers.find(({ status }) => status !== 200)!;
    expect(refused).toMatchObject({ status: 429, message: 'too_many_requests', data: null });
    const waitSeconds = Number(refused.headers.get('Retry-After'));
    expect(waitSeconds).toBeGreaterThan(0);
    expect(waitSeconds).toBeLessThanOrEqual(3600);
    const known = answers.findIndex(({ status }) => status === 200);
    for (let count = 0; count < 5; count++)
      expect((await activate(productKey, `SN-${known}`, limits)).status).toBe(200);
  });

  it('may come again in the next one, whatever was deleted in this', async () => {
    const owner = await createUser();
    const { productKey } = (await createProduct(owner)).data;
    // By records, which all are of one hour.
    await insertRecords({ ownerId: owner.userId, productKey, count: 3 });
    const ofOwner = 'where product_id in (select id from products where owner_id = ?)';
    const setHour = (hour: number) =>
      env.DB.prepare(`update product_device_counts set hour = ? ${ofOwner}`).bind(hour, owner.userId).run();
    await setHour(1e9);
    await env.DB.prepare('delete from devices where owner_id = ?').bind(owner.userId).run();
    expect((await activate(productKey, 'SN-1', limits)).status).toBe(429);
    await setHour(0);
    expect((await activate(productKey, 'SN-1', limits)).status).toBe(200);
  });
});

describe('devices that were activated and never logged in', () => {
  const address = '198.51.100.200';
  const activateFrom = (network: string, productKey: string, deviceSN: string) =>
    sendWith({ RATE_LIMITS: 'production' }, 'POST', '/devices/activate', {
      headers: { 'CF-Connecting-IP': network },
      body: { productKey, deviceSN },
    });
  const change = (columns: string, where: string) =>
    env.DB.prepare(`update devices set ${columns} where ${where}`).run();

  it('fill no database for a stranger: a network makes at most 200 of them in a day', async () => {
    const owner = await createUser();
    const { productKey } = (await createProduct(owner)).data;
    await insertRecords({ ownerId: owner.userId, productKey, count: 199 });
    const ofOwner = `owner_id = ${owner.userId}`;
    await change(`activation_network = '${address}', activated_at = ${Date.now()}`, ofOwner);
    expect((await activateFrom(address, productKey, 'SN-1')).status).toBe(200);
    const refused = await activateFrom(address, productKey, 'SN-2');
    expect([refused.status, refused.headers.get('Retry-After')]).toEqual([429, '3600']);
    expect((await activateFrom(address, productKey, 'SN-1')).status, 'known').toBe(200);
    expect((await activateFrom('198.51.100.201', productKey, 'SN-2')).status).toBe(200);
    await change('last_online_at = 1', `${ofOwner} and device_sn = 'RECORD-1'`);
    expect((await activateFrom(address, productKey, 'SN-3')).status, 'one has logged in').toBe(200);
    expect((await activateFrom(address, productKey, 'SN-4')).status).toBe(429);
    await change(`activated_at = ${Date.now() - 25 * 3_600_000}`, `${ofOwner} and device_sn like 'RECORD-%'`);
    expect((await activateFrom(address, productKey, 'SN-4')).status, 'a day later').toBe(200);
  });

  it('do not stay for ever, and none goes that somebody claimed, registered, disabled, or that ever logged in', async () => {
    const owner = await createUser();
    const { productKey } = (await createProduct(owner)).data;
    await call('POST', `/products/${productKey}/serials`, { token: owner.token, body: { serials: ['registered'] } });
    const { token } = (await call<{ token: string }>('POST', '/devices/claim-tokens', { token: owner.token, body: {} }))
      .data;
    const claimed = { body: { productKey, deviceSN: 'claimed' } };
    expect((await call('POST', `/t/${token}/api/v1/devices/activate`, claimed)).status).toBe(200);
    // Older than the others, and more than a run looks at.
    const relays = Array.from({ length: 25 }, (_, number) => `relay-${number}`);
    for (const serial of relays) {
      const { deviceId, mqtt } = (await activate(productKey, serial)).data;
      const login = { productKey, passwordDigest: await digestOf(mqtt.password), relayShard: 'relay-0' };
      expect(await sessionOf(deviceId).authenticate(login)).toMatchObject({ ok: true });
    }
    const serials = ['unused', 'registered', 'disabled', 'online', 'young'];
    const ids = new Map<string, string>();
    for (const serial of serials) ids.set(serial, (await activate(productKey, serial)).data.deviceId);
    await call('PATCH', `/devices/${ids.get('disabled')}`, { token: owner.token, body: { disabled: true } });
    await reportConnected({ deviceId: ids.get('online')! });
    const ofProduct = `product_id = (select id from products where product_key = '${productKey}')`;
    // The record of the device that is online lags.
    await change('last_online_at = null', `${ofProduct} and device_sn = 'online'`);
    await change(`activated_at = ${Date.now() - 31 * 86_400_000}`, `${ofProduct} and device_sn <> 'young'`);
    for (let run = 0; run < 2; run++) await runScheduledJobs(env);
    const { data } = await call<{ list: { deviceSN: string }[] }>('GET', '/devices?size=100', { token: owner.token });
    const kept = ['claimed', 'disabled', 'online', 'registered', 'young', ...relays];
    expect(data.list.map(({ deviceSN }) => deviceSN).sort()).toEqual(kept.sort());
    expect((await call('GET', `/devices/${ids.get('unused')}/status`, { token: owner.token })).status).toBe(404);
  });
});

describe('for a user for whom the operator has set another limit', () => {
  type Request = (owner: TestUser, productKey: string, index: number) => Promise<{ status: number; message: string }>;
  const activateNext: Request = (_, productKey, index) => activate(productKey, `SN-${index}`);
  const makeKey: Request = ({ token }) => call('POST', '/users/api-keys', { token, body: {} });
  const makeClaimToken: Request = ({ token }) => call('POST', '/devices/claim-tokens', { token, body: {} });
  const offer: Request = async ({ token }, productKey, index) => {
    const { deviceId } = (await activate(productKey, `SN-${index}`)).data;
    const { email } = await createUser();
    return call('POST', `/devices/${deviceId}/transfer`, { token, body: { email } });
  };

  // The product that is made before counts as one.
  it.each<[string, number, Request, string]>([
    ['productsPerUser', 2, (owner) => createProduct(owner), 'too_many_products'],
    ['devicesPerProduct', 1, activateNext, 'too_many_devices'],
    ['newSerialsPerProductHour', 1, activateNext, 'too_many_requests'],
    ['apiKeysPerUser', 1, makeKey, 'too_many_api_keys'],
    ['claimTokensPerUser', 1, makeClaimToken, 'too_many_claim_tokens'],
    ['transferOffersPerUser', 1, offer, 'too_many_transfers'],
  ])('%s is %i, for nobody else, and more once it is raised', async (name, limit, request, refusal) => {
    const [owner, other] = [await createUser(), await createUser()];
    const keys = [(await createProduct(owner)).data.productKey, (await createProduct(other)).data.productKey] as const;
    await setLimit(owner, name, limit);
    // So that no hour turns.
    vi.spyOn(Date, 'now').mockReturnValue(Date.now());
    const messages = [await request(owner, keys[0], 1), await request(owner, keys[0], 2)].map(({ message }) => message);
    expect(messages).toEqual(['success', refusal]);
    for (const index of [1, 2]) expect((await request(other, keys[1], index)).message).toBe('success');
    await setLimit(owner, name, limit + 1);
    expect((await request(owner, keys[0], 3)).message).toBe('success');
  });

  it('members and invitations of each device are bounded, also if they are made at once, and by it', async () => {
    const [owner, ...others] = await inParallel(4, () => createUser());
    await call('POST', '/products', { token: owner!.token, body: { productKey: 'own-members', name: 'Switch' } });
    const { deviceId } = (await activate('own-members', 'SN-1')).data;
    const invite = ({ email }: TestUser, limits = '') => {
      const body = { email, role: 'viewer' };
      return callLimited<{ invitationId: string }>(limits, 'POST', `/devices/${deviceId}/members`, {
        token: owner!.token,
        body,
      });
    };
    const inviteOneOfTwo = async (user: TestUser) => ({ user, ...(await invite(user, 'membersPerDevice=2')) });
    const answers = await Promise.all(others.map(inviteOneOfTwo));
    expect(answers.map(({ message }) => message).sort()).toEqual(['success', 'success', 'too_many_members']);
    const [first, second] = answers.filter(({ status }) => status === 200);
    const accept = ({ data, user }: (typeof answers)[number]) =>
      call('POST', `/invitations/${data.invitationId}/accept`, { token: user.token });
    await setLimit(owner!, 'membersPerDevice', 1);
    expect(await accept(first!)).toMatchObject({ code: 200 });
    expect(await accept(second!)).toMatchObject({ code: 400, message: 'too_many_members' });
    await setLimit(owner!, 'membersPerDevice', 9);
    expect(await accept(second!)).toMatchObject({ code: 200 });
    const refused = answers.find(({ status }) => status === 400);
    expect(await invite(refused!.user, 'membersPerDevice=1')).toMatchObject({ code: 200 });
  });
});
