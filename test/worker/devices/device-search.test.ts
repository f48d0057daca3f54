// Searching devices: by the beginning of name and serial number, by id, among own and shared ones, at a cost that does not
// grow with the number of devices.
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { call, createUser, type TestUser } from '../rig/clients/client.ts';
import { RecordedDatabase } from '../rig/recorded-database.ts';
import { insertRecords } from '../rig/records.ts';

type Found = {
  list: { deviceId: string; name: string; role: string }[];
  total: number;
  isCut?: boolean;
  next?: string | null;
};

async function createProduct(owner: TestUser): Promise<string> {
  const productKey = `search-${crypto.randomUUID()}`;
  await call('POST', '/products', { token: owner.token, body: { productKey, name: 'Switch' } });
  return productKey;
}

async function activate(owner: TestUser, productKey: string, deviceSN: string, name: string): Promise<string> {
  const { deviceId } = (
    await call<{ deviceId: string }>('POST', '/devices/activate', { body: { productKey, deviceSN } })
  ).data;
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
    keys = [await createProduct(owner), await createProduct(owner)];
    deviceId = await activate(owner, keys[0], 'SN-1', 'Hall light');
    await activate(owner, keys[1], 'sn-2', 'hall DOOR');
    await activate(owner, keys[0], 'X-3', 'Überdach');
    await activate(friend, await createProduct(friend), 'SN-1', 'Hallway of a friend');
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
    const body = { email: friend.email, role: 'viewer' };
    const invited = await call<{ invitationId: string }>('POST', `/devices/${deviceId}/members`, {
      token: owner.token,
      body,
    });
    await call('POST', `/invitations/${invited.data.invitationId}/accept`, { token: friend.token });
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
      const productKey = await createProduct(owner);
      await insertRecords({ ownerId: owner.userId, productKey, count });
      await activate(owner, productKey, 'ATTIC', 'Attic lamp');
    }
  });

  async function rowsReadBy(owner: TestUser, text: string): Promise<{ rows: number; found: Found }> {
    const database = new RecordedDatabase();
    const headers = { Authorization: `Bearer ${owner.token}` };
    const response = await database.fetch('GET', `/devices?search=${text}`, headers);
    return { rows: database.rowsRead, found: (await response.json<{ data: Found }>()).data };
  }

  it.each(['attic', 'nothing', 'device 7', 'record-8'])('reads as many rows for "%s" as among 20', async (text) => {
    const [short, long] = [await rowsReadBy(few, text), await rowsReadBy(many, text)];
    expect(long.rows).toBeGreaterThan(0);
    // Each device that is found is read, and of the others none.
    expect(long.rows - short.rows).toBeLessThanOrEqual(4 * (long.found.total - short.found.total));
  });

  it('looks at no more than the limit, and says so', async () => {
    const { rows, found } = await rowsReadBy(many, 'device');
    expect(found).toMatchObject({ total: 500, isCut: true });
    expect(found.list).toHaveLength(20);
    expect(rows).toBeLessThanOrEqual(1_100);
  });
});

it('a projection that leaves the name as it is writes no index of names', async () => {
  const owner = await createUser();
  await insertRecords({ ownerId: owner.userId, productKey: await createProduct(owner), count: 1 });
  const change = env.DB.prepare('update devices set name = name, connection_status = ? where owner_id = ?');
  expect((await change.bind(1, owner.userId).run()).meta.rows_written).toBe(4);
});
