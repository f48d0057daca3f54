// Devices over HTTP (contract 2.5, 2.6, 4.3): list, read, status view, delete; who may and who may not.
import { beforeAll, describe, expect, it } from 'vitest';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, createUser, type Answer, type TestUser } from '../rig/clients/client.ts';
import { sessionOf } from '../rig/provision.ts';

type Device = { deviceId: string; status: string; statusCode: number; lastOnlineAt: string | null };
type Page = { list: Device[]; total: number; page: number; size: number };

const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;
let owner: TestUser;
let stranger: TestUser;
beforeAll(async () => {
  [owner, stranger] = await Promise.all([createUser(), createUser()]);
});

let count = 0;
async function createProduct(user = owner): Promise<string> {
  const productKey = `devices-${++count}`;
  const body = { productKey, name: 'Switch', controlMode: 'toggle', model: 'LS-1' };
  const { code } = await call('POST', '/products', { token: user.token, body });
  expect(code).toBe(200);
  return productKey;
}

async function activate(productKey: string, deviceSN = 'SN-1'): Promise<string> {
  const { data } = await call<{ deviceId: string }>('POST', '/devices/activate', { body: { productKey, deviceSN } });
  return data.deviceId;
}

async function connect(deviceId: string): Promise<void> {
  await sessionOf(deviceId).decide({
    kind: 'connection_reported',
    report: { kind: 'connected', sessionStartedAtMs: Date.now() },
  });
}

function list(query: string, user = owner): Promise<Answer<Page>> {
  return call('GET', `/devices${query}`, { token: user.token });
}

describe('GET /devices', () => {
  it('pages newest first, cuts a larger size and says so', async () => {
    const productKey = await createProduct();
    const made: string[] = [];
    for (let number = 0; number < 5; number++) made.push(await activate(productKey, `SN-${number}`));
    const newestFirst = made.toReversed();
    const pages = [1, 2, 3, 4].map((page) => list(`?productKey=${productKey}&size=2&page=${page}`));
    const found = (await Promise.all(pages)).map(({ data }) => data);
    expect(found.map(({ total, page, size }) => [total, page, size])).toEqual([1, 2, 3, 4].map((page) => [5, page, 2]));
    expect(found.flatMap((page) => page.list.map(({ deviceId }) => deviceId))).toEqual(newestFirst);
    expect((await list(`?productKey=${productKey}&size=5000`)).data).toMatchObject({ size: 100, total: 5 });
  });

  it.each(['?page=0', '?size=0', '?page=x', '?size=1.5', '?status=4', '?status=on', '?status=-1'])(
    'refuses %s',
    async (query) => {
      expect(await list(query)).toMatchObject({ status: 400, data: null });
    },
  );

  it('shows nobody the devices of somebody else, not even by the filter', async () => {
    const productKey = await createProduct();
    await activate(productKey);
    expect((await list(`?productKey=${productKey}`, stranger)).data).toMatchObject({ list: [], total: 0 });
    expect((await list('?productKey=never-made')).data).toMatchObject({ list: [], total: 0 });
    expect((await call('GET', '/devices')).status).toBe(401);
  });
});

describe('GET /devices/:deviceId/status', () => {
  it('tells what is true now: offline and nothing known, then online with a position', async () => {
    const productKey = await createProduct();
    const deviceId = await activate(productKey);
    const read = () => call('GET', `/devices/${deviceId}/status`, { token: owner.token });
    expect((await read()).data).toEqual({
      deviceId,
      deviceName: 'Switch SN-1',
      online: false,
      position: null,
      status: 'offline',
      lastOnlineAt: null,
    });
    await connect(deviceId);
    await bringUp({ productKey, deviceId }, { action: 'thing/event/property/post', payload: { position: 'up' } });
    expect((await read()).data).toMatchObject({
      online: true,
      position: 'up',
      status: 'online',
      lastOnlineAt: instant,
    });
  });

  it('keeps the position null until a documented word was reported', async () => {
    const productKey = await createProduct();
    const deviceId = await activate(productKey);
    const payload = { params: { position: 'sideways', angle: 45 } };
    await bringUp({ productKey, deviceId }, { action: 'thing/event/property/post', payload });
    const { data } = await call('GET', `/devices/${deviceId}/status`, { token: owner.token });
    expect(data).toMatchObject({ online: true, position: null });
  });
});

describe('DELETE /devices/:deviceId', () => {
  it('answers the id, and leaves neither record nor session', async () => {
    const productKey = await createProduct();
    const deviceId = await activate(productKey);
    expect(await call('DELETE', `/devices/${deviceId}`, { token: owner.token })).toMatchObject({
      status: 200,
      data: { deviceId },
    });
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/status'],
      ['DELETE', ''],
      ['POST', '/control'],
    ] as const) {
      const body = method === 'POST' ? { action: 'trigger' } : undefined;
      expect((await call(method, `/devices/${deviceId}${path}`, { token: owner.token, body })).status).toBe(404);
    }
    const [result] = await bringUp({ productKey, deviceId }, { action: 'status', payload: { status: 'online' } });
    expect(result).toMatchObject({ result: 'rejected', reason: 'device_not_found' });
  });
});
