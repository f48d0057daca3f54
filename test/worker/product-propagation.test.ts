// A changed product reaches the sessions of its devices, at once and, where the request was cut off, by the schedule.
import { env } from 'cloudflare:workers';
import { expect, test, vi } from 'vitest';
import { runScheduledJobs } from '../../src/scheduled.ts';
import { call, createUser } from '../support/worker-client.ts';

async function makeReadableSwitch() {
  const { token, userId } = await createUser();
  const productKey = `propagated-${crypto.randomUUID().slice(0, 8)}`;
  await call('POST', '/products', { token, body: { productKey, name: 'Switch', controlMode: 'toggle' } });
  const body = { productKey, deviceSN: 'SN-1' };
  const { deviceId } = (await call<{ deviceId: string }>('POST', '/devices/activate', { body })).data;
  const control = () => call('POST', `/devices/${deviceId}/control`, { token, body: { action: 'trigger' } });
  return { token, userId, productKey, deviceId, control };
}

async function readNotes(): Promise<number> {
  const row = await env.DB.prepare('select count(*) as notes from product_changes').first<{ notes: number }>();
  return row?.notes ?? 0;
}

test('a product made readonly refuses control of devices that were activated before', async () => {
  const { token, productKey, control } = await makeReadableSwitch();
  await call('PUT', `/products/${productKey}`, { token, body: { controlMode: 'readonly' } });
  await vi.waitFor(async () => expect(await readNotes()).toBe(0));
  expect(await control()).toMatchObject({ status: 403, message: 'forbidden', data: null });
});

test('a change whose request was cut off is told by the schedule', async () => {
  const { productKey, deviceId, control } = await makeReadableSwitch();
  await env.DB.batch([
    env.DB.prepare(
      "update products set control_mode = 'readonly', updated_at = updated_at + 1 where product_key = ?",
    ).bind(productKey),
    env.DB.prepare('insert into product_changes select id, updated_at, 0 from products where product_key = ?').bind(
      productKey,
    ),
  ]);
  await runScheduledJobs(env);
  expect(await readNotes()).toBe(0);
  expect((await control()).status, deviceId).toBe(403);
});

test('an older change that comes late does not undo a newer one', async () => {
  const { deviceId, control } = await makeReadableSwitch();
  const session = env.DEVICE_SESSION.getByName(deviceId);
  const nowMs = Date.now() + 1000;
  await session.changeProduct({ controlMode: 'readonly', offlineGraceSeconds: 5, productChangedAtMs: nowMs });
  await session.changeProduct({ controlMode: 'toggle', offlineGraceSeconds: 5, productChangedAtMs: nowMs - 1 });
  expect((await control()).status).toBe(403);
});

test('the schedule removes refresh tokens and login attempts whose time is over', async () => {
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
