// Deleting many devices of a product by a filter: in slices, each device with its session, by its owner alone.
import { env } from 'cloudflare:workers';
import { beforeEach, expect, it } from 'vitest';
import { call, createUser, makeProduct, type Answer, type TestUser } from '../rig/clients/client.ts';
import { callWith } from '../rig/limited.ts';
import { activate as activateOf } from '../rig/ownership.ts';
import { reportConnected } from '../rig/provision.ts';
import { insertRecords } from '../rig/records.ts';

type Deleted = { deleted: number; failed: number; remaining: number };

const ever = 'createdAfter=2000-01-01T00:00:00Z';
let owner: TestUser;
let productKey: string;
beforeEach(async () => {
  owner = await createUser();
  productKey = await makeProduct(owner);
});

const activate = async (deviceSN: string) => (await activateOf(productKey, undefined, { deviceSN })).data.deviceId;

function deleteBy(query: string, token: string | undefined = owner.token): Promise<Answer<Deleted>> {
  return call('DELETE', `/products/${productKey}/devices?${query}`, { token });
}

async function listIds(query = ''): Promise<string[]> {
  const answer = await call<{ list: { deviceId: string }[] }>('GET', `/devices?${query}`, { token: owner.token });
  return answer.data.list.map(({ deviceId }) => deviceId);
}

it('ends each device with its record and its session, and its serial activates as a new one', async () => {
  const ids = [await activate('SN-1'), await activate('SN-2'), await activate('SN-3')];
  expect((await deleteBy(ever)).data).toEqual({ deleted: 3, failed: 0, remaining: 0 });
  expect(await listIds()).toEqual([]);
  for (const deviceId of ids) {
    expect((await call('GET', `/devices/${deviceId}/status`, { token: owner.token })).status).toBe(404);
  }
  expect(ids).not.toContain(await activate('SN-1'));
  expect((await deleteBy(ever)).data).toEqual({ deleted: 1, failed: 0, remaining: 0 });
  expect((await call('DELETE', `/products/${productKey}`, { token: owner.token })).status).toBe(200);
});

it('takes those of the filter alone', async () => {
  const [connected, other] = [await activate('SN-1'), await activate('SN-2')];
  await reportConnected({ deviceId: connected });
  await expect.poll(() => listIds('status=online')).toEqual([connected]);
  // Records of 2023.
  await insertRecords({ ownerId: owner.userId, productKey, count: 5 });
  expect((await deleteBy('status=disabled')).data).toEqual({ deleted: 0, failed: 0, remaining: 0 });
  expect((await deleteBy('createdAfter=2100-01-01T00:00:00Z')).data.deleted).toBe(0);
  expect((await deleteBy('status=offline&createdAfter=2024-01-01T00:00:00Z')).data.deleted).toBe(1);
  expect(await listIds()).not.toContain(other);
  expect(await listIds()).toHaveLength(6);
  const before = encodeURIComponent('2024-01-01T00:00:00+01:00');
  expect((await deleteBy(`createdBefore=${before}`)).data).toEqual({ deleted: 5, failed: 0, remaining: 0 });
  expect(await listIds()).toEqual([connected]);
});

it('goes slice by slice, the newest first, and says how many are left, up to ten thousand', async () => {
  await insertRecords({ ownerId: owner.userId, productKey, count: 10_102 });
  expect((await deleteBy(ever)).data).toEqual({ deleted: 100, failed: 0, remaining: 10_000 });
  const ofOwner = 'select id from devices where owner_id = ? order by created_at desc, id desc limit 9900';
  await env.DB.prepare(`delete from devices where id in (${ofOwner})`).bind(owner.userId).run();
  const [newest] = await listIds();
  expect((await deleteBy(ever)).data).toEqual({ deleted: 100, failed: 0, remaining: 2 });
  expect(await listIds()).not.toContain(newest);
  expect((await deleteBy(ever)).data).toEqual({ deleted: 2, failed: 0, remaining: 0 });
});

it('keeps a device that cannot be ended, and is not stopped by it', async () => {
  const ids = [await activate('SN-1'), await activate('SN-2'), await activate('SN-3')];
  const sessions = {
    getByName: (name: string) =>
      name === ids[1] ? { decide: () => Promise.reject(new Error('away')) } : env.DEVICE_SESSION.getByName(name),
  };
  const answer = await callWith(
    { DEVICE_SESSION: sessions },
    'DELETE',
    `/products/${productKey}/devices?${ever}`,
    owner,
  );
  expect(answer).toMatchObject({ data: { deleted: 2, failed: 1, remaining: 1 } });
  expect(await listIds()).toEqual([ids[1]]);
});

it('needs a filter, so that nobody deletes all devices by mistake', async () => {
  const deviceId = await activate('SN-1');
  expect(await deleteBy('')).toMatchObject({
    status: 400,
    message: 'invalid_request: createdAfter: a filter is needed',
  });
  for (const query of ['createdAfter=', 'createdAfter=yesterday', 'createdBefore=2024', 'status=gone', 'status=']) {
    expect(await deleteBy(query)).toMatchObject({ status: 400, data: null });
  }
  expect(await listIds()).toEqual([deviceId]);
});
