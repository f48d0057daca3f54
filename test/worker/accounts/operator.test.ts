// What an operator does with the operator secret: sign-up, whole accounts, credentials at a broker, metrics.
import { env } from 'cloudflare:workers';
import { expect, it } from 'vitest';
import type { SliceDone } from '../../../src/protocol/operator.ts';
import { logIn, newEmail, openAccount, operate, operatorHeaders, password, register } from '../rig/accounts.ts';
import { call, createUser, makeProduct, send, type Answer } from '../rig/clients/client.ts';
import { activate } from '../rig/ownership.ts';

/** Slice by slice to the end. */
async function operateWhole(path: string, body: object, changes: object = {}): Promise<number> {
  let done = 0;
  for (let cursor: number | null = 0; cursor !== null;) {
    const answer: Answer<SliceDone> = await operate<SliceDone>(path, { ...body, cursor }, changes);
    expect(answer).toMatchObject({ status: 200, data: { failed: 0 } });
    done += answer.data.done;
    cursor = answer.data.cursor;
  }
  return done;
}

async function openOwner() {
  const account = await openAccount();
  const productKey = await makeProduct(account);
  const ids: string[] = [];
  for (const deviceSN of ['SN-1', 'SN-2', 'SN-3']) {
    ids.push((await activate(productKey, undefined, { deviceSN })).data.deviceId);
  }
  const statusOf = async (deviceId: string, token: string) =>
    (await call<{ status: string }>('GET', `/devices/${deviceId}/status`, { token })).data.status;
  return { ...account, logIn: (shown = password) => logIn(account.email, shown), productKey, ids, statusOf };
}

it('is nobody where no operator secret is configured', async () => {
  expect((await operate('/sign-up', { open: false }, { OPERATOR_SECRETS: '' })).status).toBe(401);
});

it('closes sign-up and opens it again', async () => {
  expect((await operate('/sign-up', { open: false })).data).toEqual({ open: false });
  expect(await register(newEmail())).toMatchObject({ status: 403, message: 'forbidden: sign-up is closed' });
  await operate('/sign-up', { open: true });
  expect((await register(newEmail())).status).toBe(200);
});

it('disables an account with its devices and enables it again, except what its owner had disabled', async () => {
  const account = await openOwner();
  const [first = '', second = '', third = ''] = account.ids;
  await call('PATCH', `/devices/${third}`, { token: account.token, body: { disabled: true } });
  expect(await operateWhole('/accounts/disable', { name: account.email })).toBe(3);

  expect(await account.logIn()).toMatchObject({ status: 403, message: 'forbidden: the account is disabled' });
  expect((await account.logIn('wrong password')).status).toBe(401);
  const { refreshToken } = account;
  expect((await call('POST', '/users/refresh-token', { body: { refreshToken } })).status).toBe(401);
  const { results } = await env.DB.prepare('select is_disabled from devices where owner_id = ?')
    .bind(account.userId)
    .all();
  expect(results).toEqual(Array(3).fill({ is_disabled: 1 }));
  expect(await operate('/accounts/reset-password', { name: account.email })).toMatchObject({ status: 403 });

  expect(await operateWhole('/accounts/enable', { name: account.email })).toBe(2);
  const { token } = (await account.logIn()).data;
  expect(await account.statusOf(first, token)).toBe('offline');
  expect(await account.statusOf(second, token)).toBe('offline');
  expect(await account.statusOf(third, token)).toBe('disabled');
});

it('deletes an account with all that it owns: its name is free, its product keys are not', async () => {
  const account = await openOwner();
  expect(await operateWhole('/accounts/delete', { name: account.email })).toBe(3);
  expect((await account.logIn()).status).toBe(401);
  // Of the login of openOwner there was one, with an address.
  const left = await env.DB.prepare('select count(*) as n from security_events where user_id = ?')
    .bind(account.userId)
    .first('n');
  expect(left).toBe(0);
  const { token } = await createUser();
  for (const deviceId of account.ids) {
    expect((await call('GET', `/devices/${deviceId}/status`, { token })).status).toBe(404);
  }
  const { productKey } = account;
  expect(await activate(productKey)).toMatchObject({ message: 'invalid_product_key' });
  expect((await register(account.email)).status).toBe(200);
  const product = await call('POST', '/products', { token, body: { productKey, name: 'Switch' } });
  expect(product.message).toBe('product_key_exists');
  expect((await operate('/accounts/delete', { name: 'nobody@example.test' })).status).toBe(404);
});

it('pushes every device to a broker that credentials are pushed to', async () => {
  const account = await openOwner();
  const [first = ''] = account.ids;
  await call('PATCH', `/devices/${first}`, { token: account.token, body: { disabled: true } });
  const done = await operateWhole('/push-credentials', {}, { BROKER_PROVISIONING: 'mosquitto' });
  expect(done).toBeGreaterThanOrEqual(3);
  const outbox = await env.DB.prepare('select device_id, operation from broker_outbox').all<{
    device_id: string;
    operation: string;
  }>();
  const operations = new Map(outbox.results.map((row) => [row.device_id, row.operation]));
  expect(account.ids.map((id) => operations.get(id))).toEqual(['disable', 'upsert', 'upsert']);
  expect(await operateWhole('/push-credentials', {})).toBe(0);
});

it('finds a device by its id or serial number, and an account by its names: whose, in which state, and what happened', async () => {
  const account = await openOwner();
  const [deviceId = ''] = account.ids;
  const find = (name: string) => operate<Record<string, unknown>[]>('/find', { name });
  const device = { deviceId, deviceSN: 'SN-1', owner: account.email, ownerId: account.userId, status: 'offline' };
  const activated = expect.objectContaining({ status: 'activated' }) as object;
  expect((await find(deviceId)).data).toMatchObject([{ ...device, events: [activated] }]);
  expect((await find('SN-1')).data).toContainEqual(expect.objectContaining(device));
  await operateWhole('/accounts/disable', { name: account.email });
  const found = { userId: account.userId, email: account.email, state: 'disabled' };
  expect((await find(` ${account.email.toUpperCase()}`)).data).toMatchObject([found]);
  expect((await find(deviceId)).data).toMatchObject([{ status: 'disabled' }]);
  expect(await find('nobody')).toMatchObject({ status: 404 });
});

it('reads metrics in the format of Prometheus', async () => {
  const response = await send('GET', '/operator/metrics', { headers: operatorHeaders });
  expect(response.headers.get('Content-Type')).toContain('text/plain');
  const text = await response.text();
  const valueOf = (sample: string) =>
    Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${sample} `))
        ?.split(' ')[1],
    );
  const users = await env.DB.prepare('select count(*) as n from users').first<{ n: number }>();
  expect(valueOf('latchwork_users{state="enabled"}') + valueOf('latchwork_users{state="disabled"}')).toBe(users?.n);
  const devices = await env.DB.prepare('select count(*) as n from devices').first<{ n: number }>();
  const states = ['inactive', 'online', 'offline', 'disabled'];
  const counted = states.map((status) => valueOf(`latchwork_devices{status="${status}"}`));
  expect(counted.reduce((sum, one) => sum + one, 0)).toBe(devices?.n);
  expect(valueOf('latchwork_up')).toBe(0);
  expect(valueOf('latchwork_bridge_connected')).toBe(0);
  for (const line of text.trimEnd().split('\n')) {
    expect(line).toMatch(/^(# (HELP|TYPE) latchwork_\w+ .+|latchwork_\w+(\{\w+="\w+"\})? -?\d+(\.\d+)?)$/);
  }
});
