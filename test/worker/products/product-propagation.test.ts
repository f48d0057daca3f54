// A changed product reaches the sessions of its devices: at once, or by the schedule where the request was cut off.
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeAll, expect, test, vi } from 'vitest';
import type { ProductFacts } from '../../../src/domain/device/ownership/ownership.ts';
import { DeviceSession } from '../../../src/objects/device/device-session.ts';
import { ProductPropagator } from '../../../src/objects/product-propagator.ts';
import { limitSpecs } from '../../../src/limits.ts';
import { runScheduledJobs } from '../../../src/scheduled.ts';
import { TestBridge } from '../rig/clients/bridge.ts';
import { call, createUser } from '../rig/clients/client.ts';

// A command that is not refused is published at once.
beforeAll(async () => void (await TestBridge.dialIn()));

/** Devices of a product, which can be controlled. */
async function makeProduct(deviceCount = 1) {
  const { token } = await createUser();
  const productKey = `propagated-${crypto.randomUUID().slice(0, 8)}`;
  const product = { productKey, name: 'Switch', controlMode: 'toggle' };
  const { productId } = (await call<{ productId: number }>('POST', '/products', { token, body: product })).data;
  const activate = async (deviceSN: string) => {
    const body = { productKey, deviceSN };
    return (await call<{ deviceId: string }>('POST', '/devices/activate', { body })).data.deviceId;
  };
  const deviceIds: string[] = [];
  for (let number = 0; number < deviceCount; number++) deviceIds.push(await activate(`SN-${number}`));
  const change = (body: object) => call('PUT', `/products/${productKey}`, { token, body });
  const setMode = (controlMode: string) => change({ controlMode });
  const isReadonly = async (deviceId = deviceIds[0]) => {
    const control = await call('POST', `/devices/${deviceId}/control`, { token, body: { action: 'trigger' } });
    return control.status === 403 && control.message === 'forbidden';
  };
  const propagator = env.PRODUCT_PROPAGATOR.getByName(String(productId));
  return { productKey, productId, deviceIds, activate, change, setMode, isReadonly, propagator };
}

const untilDelivered = () => vi.waitFor(async () => expect(await countPendingChanges()).toBe(0));

async function countPendingChanges(): Promise<number> {
  const row = await env.DB.prepare('select count(*) as pending from product_changes').first<{ pending: number }>();
  return row?.pending ?? 0;
}

test('a change whose request was cut off is delivered by the schedule', async () => {
  const { productKey, isReadonly } = await makeProduct();
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
  await untilDelivered();
  expect(await isReadonly()).toBe(true);
});

test('of two changes in one millisecond, delivering the first does not end the delivery of the second', async () => {
  const { setMode, isReadonly } = await makeProduct();
  vi.spyOn(Date, 'now').mockReturnValue(Date.now());
  await Promise.all([setMode('readonly'), setMode('dimmer')]);
  await setMode('readonly');
  await untilDelivered();
  vi.restoreAllMocks();
  expect(await isReadonly()).toBe(true);
});

test('a device that is activated while its product changes has the change', async () => {
  for (let round = 0; round < 5; round++) {
    const { activate, setMode, isReadonly } = await makeProduct();
    const [deviceId] = await Promise.all([activate('SN-race'), setMode('readonly')]);
    await untilDelivered();
    expect(await isReadonly(deviceId)).toBe(true);
  }
});

test('a change that devices do not use calls none of them', async () => {
  const { change } = await makeProduct();
  await change({ name: 'Other name' });
  expect(await countPendingChanges()).toBe(0);
});

test('an older change that arrives late does not undo a newer one', async () => {
  const { deviceIds, isReadonly } = await makeProduct();
  const session = env.DEVICE_SESSION.getByName(deviceIds[0]!);
  const nowMs = Date.now() + 1000;
  const facts = { controlMode: 'readonly', offlineGraceSeconds: 5, reactivation: null, productChangedAtMs: nowMs };
  await session.changeProduct(facts);
  await session.changeProduct({ ...facts, controlMode: 'toggle', productChangedAtMs: nowMs - 1 });
  expect(await isReadonly()).toBe(true);
});

/** Retries of devices that failed wait for the test, however slow the machine is, and do not run in the tests that follow. */
function postponeRetries(propagator: DurableObjectStub<ProductPropagator>): Promise<void> {
  return runInDurableObject(propagator, async (_, { storage }) => {
    const inAnHour = Date.now() + 3_600_000;
    storage.sql.exec('UPDATE failed SET next_at = ?', inAnHour);
    await storage.setAlarm(inAnHour);
  });
}

/** Rows of devices that are told as any other, and have no session. @param productId of a product with one device */
async function insertInactive(productId: number, count: number): Promise<void> {
  await env.DB.prepare(
    `insert into devices (device_id, product_id, device_sn, owner_id, project_id, name, firmware_version, chip_model,
       connection_status, created_at)
     with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?2)
     select 'dev_many-' || product_id || '-' || n, product_id, 'many-' || n, owner_id, project_id, name, '', '', 2, 0
     from devices, numbers where product_id = ?1`,
  )
    .bind(productId, count)
    .run();
}

test('a device that fails holds up no other, and has the change when it works again', async () => {
  const { deviceIds, setMode, isReadonly, propagator } = await makeProduct(3);
  const [first, broken, last] = deviceIds as [string, string, string];
  const session = env.DEVICE_SESSION.getByName(broken);
  const exec = (statement: string) => runInDurableObject(session, (_, { storage }) => void storage.sql.exec(statement));
  await exec('ALTER TABLE slice RENAME TO slice_away');
  await setMode('readonly');
  await untilDelivered();
  await postponeRetries(propagator);
  expect([await isReadonly(first), await isReadonly(last)]).toEqual([true, true]);
  await exec('ALTER TABLE slice_away RENAME TO slice');
  expect(await isReadonly(broken)).toBe(false);
  await runInDurableObject(propagator, (_, { storage }) => void storage.sql.exec('UPDATE failed SET next_at = 0'));
  expect(await runDurableObjectAlarm(propagator)).toBe(true);
  expect(await isReadonly(broken)).toBe(true);
  expect(await runDurableObjectAlarm(propagator)).toBe(false);
});

test('a device that never answers holds up no other', async () => {
  const { deviceIds, setMode, isReadonly, propagator } = await makeProduct(3);
  // The patience with a device ends when the test says so: after the others have answered.
  const patience = new Map<number, () => void>();
  const { setTimeout, clearTimeout } = globalThis;
  // Negative, so that no real timer has the number.
  let lastTimer = 0;
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((run: () => void, ms: number) => {
    if (ms !== 5_000) return setTimeout(run, ms);
    patience.set(--lastTimer, run);
    return lastTimer;
  }) as never);
  vi.spyOn(globalThis, 'clearTimeout').mockImplementation((timer) => {
    if (!patience.delete(timer as number)) clearTimeout(timer);
  });
  type Change = (this: DeviceSession, facts: ProductFacts) => void;
  const changeProduct: Change = Reflect.get(DeviceSession.prototype, 'changeProduct');
  vi.spyOn(DeviceSession.prototype, 'changeProduct').mockImplementation(function (this: DeviceSession, facts) {
    const { ctx } = this as unknown as { ctx: DurableObjectState };
    if (ctx.id.name === deviceIds[1]) return new Promise<void>(() => undefined) as unknown as undefined;
    changeProduct.call(this, facts);
  });
  await setMode('readonly');
  await vi.waitFor(() => expect([lastTimer, patience.size]).toEqual([-3, 1]));
  await runInDurableObject(propagator, () => patience.forEach((end) => end()));
  await untilDelivered();
  vi.restoreAllMocks();
  await postponeRetries(propagator);
  expect(await Promise.all(deviceIds.map((deviceId) => isReadonly(deviceId)))).toEqual([true, false, true]);
});

test('a change during a delivery lets it go on to its end and begin again: no device is left out', async () => {
  const { productId, deviceIds, setMode, isReadonly } = await makeProduct(3);
  // As it is half-way: the first two devices have the change before.
  await env.DB.prepare(
    `insert into product_changes (product_id, changed_at, cursor)
     select ?1, 1, max(id) - 1 from devices where product_id = ?1`,
  )
    .bind(productId)
    .run();
  await setMode('readonly');
  await untilDelivered();
  expect(await Promise.all(deviceIds.map((deviceId) => isReadonly(deviceId)))).toEqual([true, true, true]);
});

test('devices are told step by step, so many a second', async () => {
  const { productId } = await makeProduct(1);
  await insertInactive(productId, 24);
  const productChangedAtMs = Date.now();
  const facts = { controlMode: 'readonly', offlineGraceSeconds: 5, reactivation: null, productChangedAtMs } as const;
  await env.DB.prepare('insert into product_changes (product_id, changed_at, cursor) values (?, ?, 0)')
    .bind(productId, facts.productChangedAtMs)
    .run();
  const waits: { ms: number; end: () => void }[] = [];
  const toldAfter: number[] = [];
  vi.spyOn(scheduler, 'wait').mockImplementation(
    (ms) => new Promise((resolve) => waits.push({ ms, end: () => resolve() })),
  );
  vi.spyOn(DeviceSession.prototype, 'changeProduct').mockImplementation(() => void toldAfter.push(waits.length));
  const named = env.PRODUCT_PROPAGATOR.getByName(`${productId}`);
  await runInDurableObject(named, async (_, state) => {
    const delivery = new ProductPropagator(state, { ...env, LIMITS: 'productDevicesPerSecond=20' } as never).alarm();
    await vi.waitFor(() => expect(waits).toHaveLength(25));
    expect(toldAfter).toEqual([]);
    const waitsOf = (ms: number) => waits.filter((one) => one.ms === ms);
    expect([500, 1000, 1500].map((ms) => waitsOf(ms).length)).toEqual([10, 10, 5]);
    for (const { end } of waitsOf(500)) end();
    await vi.waitFor(() => expect(toldAfter).toHaveLength(10));
    for (const { end } of [...waitsOf(1000), ...waitsOf(1500)]) end();
    await delivery;
  });
  vi.restoreAllMocks();
  expect(toldAfter).toHaveLength(25);
  expect(await countPendingChanges()).toBe(0);
});

test('more devices than one invocation may call all have the change', async () => {
  const { productId, setMode } = await makeProduct(1);
  const count = 810;
  await insertInactive(productId, count);
  const told = new Set<string>();
  vi.spyOn(scheduler, 'wait').mockResolvedValue(undefined);
  // Objects for all of them would take ten seconds.
  vi.spyOn(env.DEVICE_SESSION, 'getByName').mockImplementation(
    (name) => ({ changeProduct: () => Promise.resolve(void told.add(name)) }) as never,
  );
  await setMode('readonly');
  await untilDelivered();
  expect([...told].filter((name) => name.startsWith(`dev_many-${productId}-`))).toHaveLength(count);
});

test('a product that is changed again and again is told to wait', async () => {
  const { setMode } = await makeProduct(0);
  const max = limitSpecs.productChangesPerMinute.default;
  // Otherwise there is room for a further change after three seconds.
  vi.spyOn(Date, 'now').mockReturnValue(Date.now());
  for (let times = 0; times < max; times++) expect((await setMode('readonly')).status).toBe(200);
  const refused = await setMode('toggle');
  expect(refused).toMatchObject({ status: 429, message: 'too_many_requests' });
  expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(0);
});
