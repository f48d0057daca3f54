// Lists of devices that are long: totals that are counted with each change, pages and filters whose cost does not depend
// on how many devices there are, and the cursor.
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { call, createUser, type TestUser } from '../rig/clients/client.ts';
import { reportConnected } from '../rig/provision.ts';
import { RecordedDatabase } from '../rig/recorded-database.ts';
import { insertRecords } from '../rig/records.ts';

type Page = { list: { deviceId: string; status: string }[]; total: number; page: number; next?: string | null };

const filters = [
  '',
  'status=1',
  'status=2',
  'status=3',
  'productKey=KEY',
  'productKey=KEY&status=1',
  'productKey=KEY&status=2',
];

async function createProduct(owner: TestUser): Promise<string> {
  const productKey = `lists-${crypto.randomUUID()}`;
  await call('POST', '/products', { token: owner.token, body: { productKey, name: 'Switch' } });
  return productKey;
}

async function list(owner: TestUser, query: string): Promise<Page> {
  return (await call<Page>('GET', `/devices?${query}`, { token: owner.token })).data;
}

describe('the total of a list', () => {
  let owner: TestUser;
  let keys: string[];
  beforeAll(async () => {
    owner = await createUser();
    keys = [await createProduct(owner), await createProduct(owner)];
  });

  /** Every filter counts as many devices as it lists. */
  async function expectTrueTotals(): Promise<void> {
    for (const filter of filters.flatMap((text) => keys.map((key) => text.replace('KEY', key)))) {
      const { list: devices, total } = await list(owner, `${filter}&size=100`);
      expect({ filter, total }).toEqual({ filter, total: devices.length });
    }
  }

  it('follows activation, presence, disabling and deletion', async () => {
    const activate = async (productKey: string, deviceSN: string) =>
      (await call<{ deviceId: string }>('POST', '/devices/activate', { body: { productKey, deviceSN } })).data.deviceId;
    const ids: string[] = [];
    for (const key of keys) for (const serial of ['1', '2', '3', '1']) ids.push(await activate(key, serial));
    expect((await list(owner, '')).total).toBe(6);
    await expectTrueTotals();
    await reportConnected({ deviceId: ids[0]! });
    await expect.poll(async () => (await list(owner, 'status=1')).total).toBe(1);
    await expectTrueTotals();
    const disable = (disabled: boolean) =>
      call('PATCH', `/devices/${ids[0]}`, { token: owner.token, body: { disabled, name: 'Hall' } });
    await disable(true);
    expect((await list(owner, 'status=disabled')).total).toBe(1);
    await expectTrueTotals();
    await disable(false);
    expect((await list(owner, 'status=1')).total).toBe(1);
    for (const deviceId of ids.slice(0, 5)) await call('DELETE', `/devices/${deviceId}`, { token: owner.token });
    expect((await list(owner, '')).total).toBe(2);
    await expectTrueTotals();
  });
});

it('a change of presence writes four rows: the record, its two lists by status, the count', async () => {
  const owner = await createUser();
  await insertRecords({ ownerId: owner.userId, productKey: await createProduct(owner), count: 1 });
  const change = env.DB.prepare('update devices set connection_status = ? where owner_id = ?');
  for (const status of [1, 2]) expect((await change.bind(status, owner.userId).run()).meta.rows_written).toBe(4);
});

describe('a list of 100 000 devices', () => {
  const count = 100_000;
  let few: TestUser;
  let many: TestUser;
  let fewKey: string;
  let manyKey: string;
  beforeAll(async () => {
    [few, many] = [await createUser(), await createUser()];
    [fewKey, manyKey] = [await createProduct(few), await createProduct(many)];
    const statuses = [1, 2] as const;
    await insertRecords({ ownerId: few.userId, productKey: fewKey, count: 60, statuses });
    await insertRecords({ ownerId: many.userId, productKey: manyKey, count, statuses });
    // Another product, so that no filter matches everything.
    await insertRecords({ ownerId: many.userId, productKey: await createProduct(many), count: 1_000, statuses });
  });

  async function rowsReadBy(owner: TestUser, query: string): Promise<{ rows: number; page: Page }> {
    const database = new RecordedDatabase();
    const response = await database.fetch('GET', `/devices?${query}`, { Authorization: `Bearer ${owner.token}` });
    const { data } = await response.json<{ data: Page }>();
    return { rows: database.rowsRead, page: data };
  }

  it.each(filters)('reads as many rows as one of 60, filtered by "%s"', async (filter) => {
    for (const page of ['page=1', 'page=2']) {
      const short = await rowsReadBy(few, `${filter.replace('KEY', fewKey)}&${page}`);
      const long = await rowsReadBy(many, `${filter.replace('KEY', manyKey)}&${page}`);
      expect(long.rows).toBeGreaterThan(0);
      expect(long.rows).toBeLessThanOrEqual(2 * short.rows);
      if (filter !== 'status=3') expect(long.page.list).toHaveLength(20);
    }
  });

  it('counts what it has', async () => {
    expect((await list(many, '')).total).toBe(count + 1_000);
    expect((await list(many, `productKey=${manyKey}&status=online`)).total).toBe(count / 2);
  });

  it('goes on from any depth at the cost of its first page', async () => {
    const first = await rowsReadBy(many, 'size=100');
    // The 40 000th of the devices made last, in the form that `next` has.
    const deep = await rowsReadBy(many, `size=100&after=${(1_700_000_060_000).toString(36)}-${(60_000).toString(36)}`);
    expect(deep.page.list).toHaveLength(100);
    // One more for each role: where its index is entered.
    expect(deep.rows).toBeLessThanOrEqual(first.rows + 3);
  });

  it('refuses a page beyond the limit and reads nothing for it', async () => {
    const token = many.token;
    expect((await list(many, 'page=500')).list).toHaveLength(20);
    for (const query of ['page=501', 'page=5050', 'status=1&page=501']) {
      const answer = await call('GET', `/devices?${query}`, { token });
      expect(answer).toMatchObject({
        status: 400,
        message: expect.stringMatching(/^invalid_request: page: /) as string,
      });
    }
    expect((await rowsReadBy(many, 'page=501')).rows).toBe(0);
    expect(await list(many, 'page=5051')).toMatchObject({ list: [], total: 101_000, page: 5_051 });
  });
});

describe('the cursor of a list', () => {
  it('reaches each device once, in the order of the pages, while devices come and go', async () => {
    const owner = await createUser();
    const productKey = await createProduct(owner);
    await insertRecords({ ownerId: owner.userId, productKey, count: 25 });
    const inPages = (await list(owner, 'size=100')).list.map(({ deviceId }) => deviceId);
    const byCursor: string[] = [];
    let next: string | null | undefined = '';
    do {
      const page: Page = await list(owner, `size=10&after=${next}`);
      byCursor.push(...page.list.map(({ deviceId }) => deviceId));
      ({ next } = page);
      await call('POST', '/devices/activate', { body: { productKey, deviceSN: `NEW-${byCursor.length}` } });
      await env.DB.prepare('delete from devices where device_id = ?').bind(byCursor.at(-1)).run();
    } while (typeof next === 'string');
    expect(byCursor).toEqual(inPages);
  });

  it('ends with the last full page at the latest', async () => {
    const owner = await createUser();
    await insertRecords({ ownerId: owner.userId, productKey: await createProduct(owner), count: 20 });
    const { next } = await list(owner, 'after=&page=7');
    expect(next).toMatch(/-/);
    expect(await list(owner, `after=${next}`)).toMatchObject({ list: [], total: 20, next: null });
  });

  it.each(['x', '1', '1-', '-1', '1-1-1', '1_1', 'A-1', "1-1'", '1234567890-1'])('refuses "%s"', async (after) => {
    const { token } = await createUser();
    expect((await call('GET', `/devices?after=${after}`, { token })).status).toBe(400);
  });
});
