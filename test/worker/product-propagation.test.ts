// A changed product reaches the sessions of its devices: at once, or by the schedule where the request was cut off.
import { env } from 'cloudflare:workers';
import { expect, test, vi } from 'vitest';
import { runScheduledJobs } from '../../src/scheduled.ts';
import { call, createUser } from '../rig/workerd/client.ts';

async function makeReadableSwitch() {
  const { token, userId } = await createUser();
  const productKey = `propagated-${crypto.randomUUID().slice(0, 8)}`;
  await call('POST', '/products', { token, body: { productKey, name: 'Switch', controlMode: 'toggle' } });
  const body = { productKey, deviceSN: 'SN-1' };
  const { deviceId } = (await call<{ deviceId: string }>('POST', '/devices/activate', { body })).data;
  const control = () => call('POST', `/devices/${deviceId}/control`, { token, body: { action: 'trigger' } });
  return { token, userId, productKey, deviceId, control };
}

async function countPendingChanges(): Promise<number> {
  const row = await env.DB.prepare('select count(*) as pending from product_changes').first<{ pending: number }>();
  return row?.pending ?? 0;
}

test('a product made readonly refuses control of devices that were activated before', async () => {
  const { token, productKey, control } = await makeReadableSwitch();
  await call('PUT', `/products/${productKey}`, { token, body: { controlMode: 'readonly' } });
  await vi.waitFor(async () => expect(await countPendingChanges()).toBe(0));
  expect(await control()).toMatchObject({ status: 403, message: 'forbidden', data: null });
});

test('a change whose request was cut off is delivered by the schedule', async () => {
  const { productKey, deviceId, control } = await makeReadableSwitch();
  await env.DB.batch([
    env.DB.prepare(
      "update products set control_mode = 'readonly', updated_at = updated_at + 1 where product_key = ?",
    ).bind(productKey),
    env.DB.prepare(
      `insert into product_changes (product_id, changed_at, cursor)
       select id, updated_at, 0 from products where product_key = ?`,
    ).bind(productKey),
  ]);
  await runScheduledJobs(env);
  expect(await countPendingChanges()).toBe(0);
  expect((await control()).status, deviceId).toBe(403);
});

test('of two changes in one millisecond, delivering the first does not end the delivery of the second', async () => {
  const { token, productKey, control } = await makeReadableSwitch();
  vi.spyOn(Date, 'now').mockReturnValue(Date.now());
  const change = (controlMode: string) => call('PUT', `/products/${productKey}`, { token, body: { controlMode } });
  await Promise.all([change('readonly'), change('dimmer')]);
  await change('readonly');
  await vi.waitFor(async () => expect(await countPendingChanges()).toBe(0));
  vi.restoreAllMocks();
  expect((await control()).status).toBe(403);
});

test('a device that is activated while its product changes has the change', async () => {
  for (let round = 0; round < 5; round++) {
    const { token, productKey } = await makeReadableSwitch();
    const body = { productKey, deviceSN: `SN-race-${round}` };
    const [activation] = await Promise.all([
      call<{ deviceId: string }>('POST', '/devices/activate', { body }),
      call('PUT', `/products/${productKey}`, { token, body: { controlMode: 'readonly' } }),
    ]);
    await vi.waitFor(async () => expect(await countPendingChanges()).toBe(0));
    const path = `/devices/${activation.data.deviceId}/control`;
    expect((await call('POST', path, { token, body: { action: 'trigger' } })).status).toBe(403);
  }
});

test('a change that devices do not use calls none of them', async () => {
  const { token, productKey } = await makeReadableSwitch();
  await call('PUT', `/products/${productKey}`, { token, body: { name: 'Other name' } });
  expect(await countPendingChanges()).toBe(0);
});

test('an older change that arrives late does not undo a newer one', async () => {
  const { deviceId, control } = await makeReadableSwitch();
  const session = env.DEVICE_SESSION.getByName(deviceId);
  const nowMs = Date.now() + 1000;
  await session.changeProduct({ controlMode: 'readonly', offlineGraceSeconds: 5, productChangedAtMs: nowMs });
  await session.changeProduct({ controlMode: 'toggle', offlineGraceSeconds: 5, productChangedAtMs: nowMs - 1 });
  expect((await control()).status).toBe(403);
});

test('the schedule removes refresh tokens and login attempts that have expired', async () => {
  const { userId } = await makeReadableSwitch();
  const insertToken = env.DB.prepare(
    "insert into refresh_tokens (hash, family, user_id, created_at, expires_at) values (?, 'f', ?, 0, ?)",
  );
  const nowMs = Date.now();
  await env.DB.batch([insertToken.bind('over', userId, nowMs - 1), insertToken.bind('valid', userId, nowMs + 60_000)]);
  await runScheduledJobs(env);
  const left = await env.DB.prepare("select hash from refresh_tokens where family = 'f'").all();
  expect(left.results).toEqual([{ hash: 'valid' }]);
});
