// Lists of devices that are long: totals that are counted with each change, pages and filters whose cost does not depend
// on how many devices there are, and the cursor. And a search: by the beginning of name and serial number, by id, among own
// and shared ones.
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { call, createUser, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { activate } from '../rig/ownership.ts';
import { readRows } from '../rig/recorded-database.ts';
import { insertRecords } from '../rig/records.ts';
import { share } from '../rig/sharing.ts';

type Page = { list: { deviceId: string; status: string }[]; total: number; page: number; next?: string | null };

type Found = {
  list: { deviceId: string; name: string; role: string }[];
  total: number;
  isCut?: boolean;
  next?: string | null;
};

const filters = [
  '',
  'status=1',
  'status=2',
  'status=3',
  'productKey=KEY',
  'productKey=KEY&status=1',
  'productKey=KEY&status=2',
];

async function list(owner: TestUser, query: string): Promise<Page> {
  return (await call<Page>('GET', `/devices?${query}`, { token: owner.token })).data;
}

it('a change of presence writes four rows: the record, its two lists by status, the count, no index of names', async () => {
  const owner = await createUser();
  await insertRecords({ ownerId: owner.userId, productKey: await makeProduct(owner), count: 1 });
  const change = env.DB.prepare('update devices set name = name, connection_status = ? where owner_id = ?');
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
    [fewKey, manyKey] = [await makeProduct(few), await makeProduct(many)];
    const statuses = [1, 2] as const;
    await insertRecords({ ownerId: few.userId, productKey: fewKey, count: 60, statuses });
    await insertRecords({ ownerId: many.userId, productKey: manyKey, count, statuses });
    // Other products, so that no filter matches everything: of disabled devices.
    for (const owner of [few, many]) {
      const productKey = await makeProduct(owner);
      await insertRecords({ ownerId: owner.userId, productKey, count: 1_000 });
      const disabling =
        'update devices set is_disabled = 1 from products where products.id = product_id and product_key = ?';
      await env.DB.prepare(disabling).bind(productKey).run();
    }
  });

  const rowsReadBy = (owner: TestUser, query: string) => readRows<Page>(owner, `/devices?${query}`);

  it.each(filters)('reads as many rows as one of 60, filtered by "%s"', async (filter) => {
    for (const page of ['page=1', 'page=2']) {
      const short = await rowsReadBy(few, `${filter.replace('KEY', fewKey)}&${page}`);
      const long = await rowsReadBy(many, `${filter.replace('KEY', manyKey)}&${page}`);
      expect(long.rows).toBeGreaterThan(0);
      expect(long.rows).toBeLessThanOrEqual(2 * short.rows);
      expect(long.data.list).toHaveLength(20);
    }
  });

  it('counts what it has, by every filter', async () => {
    const totals = filters.map(async (filter) => (await list(many, filter.replace('KEY', manyKey))).total);
    expect(await Promise.all(totals)).toEqual([101_000, 50_000, 50_000, 1_000, 100_000, 50_000, 50_000]);
  });

  it('goes on from any depth at the cost of its first page', async () => {
    const first = await rowsReadBy(many, 'size=100');
    // The 40 000th of the devices made last, in the form that `next` has.
    const deep = await rowsReadBy(many, `size=100&after=${(1_700_000_060_000).toString(36)}-${(60_000).toString(36)}`);
    expect(deep.data.list).toHaveLength(100);
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
    const productKey = await makeProduct(owner);
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
    await insertRecords({ ownerId: owner.userId, productKey: await makeProduct(owner), count: 20 });
    const { next } = await list(owner, 'after=&page=7');
    expect(next).toMatch(/-/);
    expect(await list(owner, `after=${next}`)).toMatchObject({ list: [], total: 20, next: null });
  });

  it.each(['x', '1', '1-', '-1', '1-1-1', '1_1', 'A-1', "1-1'", '1234567890-1'])('refuses "%s"', async (after) => {
    const { token } = await createUser();
    expect((await call('GET', `/devices?after=${after}`, { token })).status).toBe(400);
  });
});

async function activateAs(owner: TestUser, productKey: string, deviceSN: string, name: string): Promise<string> {
  const { deviceId } = (await activate(productKey, undefined, { deviceSN })).data;
  await call('PATCH', `/devices/${deviceId}`, { token: owner.token, body: { name } });
  return deviceId;
}

async function search(user: TestUser, text: string, more = ''): Promise<Found> {
  return (await call<Found>('GET', `/devices?search=${encodeURIComponent(text)}${more}`, { token: user.token })).data;
}

const namesOf = ({ list }: Found) => list.map(({ name }) => name);

describe('a search', () => {
  let owner: TestUser;
  let friend: TestUser;
  let keys: [string, string];
  let deviceId: string;
  beforeAll(async () => {
    [owner, friend] = [await createUser(), await createUser()];
    keys = [await makeProduct(owner), await makeProduct(owner)];
    deviceId = await activateAs(owner, keys[0], 'SN-1', 'Hall light');
    await activateAs(owner, keys[1], 'sn-2', 'hall DOOR');
    await activateAs(owner, keys[0], 'X-3', 'Überdach');
    await activateAs(friend, await makeProduct(friend), 'SN-1', 'Hallway of a friend');
  });

  it.each([
    ['hall', ['hall DOOR', 'Hall light']],
    ['HALL L', ['Hall light']],
    ['  hall d ', ['hall DOOR']],
    ['sn-', ['hall DOOR', 'Hall light']],
    ['SN-2', ['hall DOOR']],
    ['Überd', ['Überdach']],
    ['light', []],
    ['%', []],
    ['\u0000', []],
    ['hall\u0000', []],
    ['\u{10FFFF}', []],
    ['Ü', ['Überdach']],
    ['ü', []],
    ["' or 1=1 --", []],
  ])('for "%s" finds own devices that begin like that, by name', async (text, names) => {
    const found = await search(owner, text);
    expect(found).toMatchObject({ total: names.length, isCut: false });
    expect(namesOf(found)).toEqual(names);
  });

  it('finds a device by its whole id', async () => {
    expect(namesOf(await search(owner, deviceId.toUpperCase()))).toEqual(['Hall light']);
    expect((await search(owner, deviceId.slice(0, -1))).total).toBe(0);
    expect((await search(friend, deviceId)).total).toBe(0);
  });

  it('keeps to the other filters', async () => {
    expect(namesOf(await search(owner, 'hall', `&productKey=${keys[0]}`))).toEqual(['Hall light']);
    expect((await search(owner, 'hall', '&productKey=no-such-product')).total).toBe(0);
    expect((await search(owner, 'hall', '&status=offline')).total).toBe(2);
    expect((await search(owner, 'hall', '&status=online')).total).toBe(0);
    expect((await search(owner, 'hall', '&role=viewer')).total).toBe(0);
  });

  it('is read page by page', async () => {
    expect(namesOf(await search(owner, 'hall', '&size=1&page=2'))).toEqual(['Hall light']);
    expect(await search(owner, 'hall', '&size=1&page=3')).toMatchObject({ total: 2, list: [] });
    const refused = await call('GET', '/devices?search=hall&after=', { token: owner.token });
    expect(refused).toMatchObject({ status: 400, message: 'invalid_request: after: not with search' });
    expect((await call('GET', `/devices?search=${'x'.repeat(101)}`, { token: owner.token })).status).toBe(400);
  });

  it('for nothing is the list as it is without', async () => {
    const { list, total, isCut } = await search(owner, '');
    expect({ total, isCut }).toEqual({ total: 3, isCut: undefined });
    expect(list[0]?.name).toBe('Überdach');
  });

  it('finds shared devices with the role of the user, under their new names', async () => {
    await share({ deviceId, productKey: keys[0] }, friend, 'viewer', owner);
    await expect.poll(async () => namesOf(await search(friend, 'hal'))).toEqual(['Hall light', 'Hallway of a friend']);
    for (const text of ['hall l', deviceId]) {
      expect((await search(friend, text, '&role=viewer')).list).toMatchObject([{ deviceId, role: 'viewer' }]);
    }
    expect((await search(friend, 'sn-1', '&role=viewer')).total, 'a guess is not confirmed').toBe(0);
    expect((await search(friend, 'hall', '&role=owner')).total).toBe(1);
    await call('PATCH', `/devices/${deviceId}`, { token: owner.token, body: { name: 'Cellar' } });
    await expect.poll(async () => namesOf(await search(friend, 'cel'))).toEqual(['Cellar']);
    await expect.poll(async () => (await search(owner, 'hall l')).total).toBe(0);
  });
});

describe('a search among 20 000 devices', () => {
  let few: TestUser;
  let many: TestUser;
  beforeAll(async () => {
    [few, many] = [await createUser(), await createUser()];
    for (const [owner, count] of [
      [few, 20],
      [many, 20_000],
    ] as const) {
      const productKey = await makeProduct(owner);
      await insertRecords({ ownerId: owner.userId, productKey, count });
      await activateAs(owner, productKey, 'ATTIC', 'Attic lamp');
    }
  });

  const searchRows = (owner: TestUser, text: string) => readRows<Found>(owner, `/devices?search=${text}`);

  it.each(['attic', 'nothing', 'device 7', 'record-8'])('reads as many rows for "%s" as among 20', async (text) => {
    const [short, long] = [await searchRows(few, text), await searchRows(many, text)];
    expect(long.rows).toBeGreaterThan(0);
    // Each device that is found is read, and of the others none.
    expect(long.rows - short.rows).toBeLessThanOrEqual(4 * (long.data.total - short.data.total));
  });

  it('looks at no more than the limit, and says so', async () => {
    const { rows, data: found } = await searchRows(many, 'device');
    expect(found).toMatchObject({ total: 500, isCut: true });
    expect(found.list).toHaveLength(20);
    expect(rows).toBeLessThanOrEqual(1_100);
  });
});
