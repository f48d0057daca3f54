// Tags, groups and scenes: what is stored and how much of it, whose it is, and what a group says of its devices.
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { createContext } from '../../../src/context.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { deviceIdsOf } from '../../../src/services/collections.ts';
import { operate } from '../rig/accounts.ts';
import { createKey } from '../rig/authorization-callers.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, createUser, makeDevice, makeProduct, type CallOptions, type TestUser } from '../rig/clients/client.ts';
import { report, type Device } from '../rig/commands.ts';
import { countWoken, callWith } from '../rig/limited.ts';
import { handOver } from '../rig/ownership.ts';
import { reportConnected, reportDisconnected } from '../rig/provision.ts';
import { insertRecords } from '../rig/records.ts';
import { share } from '../rig/sharing.ts';

type Made = { groupId?: string; sceneId?: string };
type State = { counts: Record<string, number>; devices: { deviceId: string; refused?: string }[] };
type Listed = { total: number; list: { deviceId: string; tags: string[] }[]; next?: string | null };

let user: TestUser;
let other: TestUser;
beforeEach(async () => {
  [user, other] = await Promise.all([createUser(), createUser()]);
});

const ask = <T = never>(method: string, path: string, body?: unknown, by: CallOptions = { token: user.token }) =>
  call<T>(method, path, { ...by, body });
const tag = ({ deviceId }: Pick<Device, 'deviceId'>, tags: unknown, by = user) =>
  ask<{ tags: string[] }>('PATCH', `/devices/${deviceId}`, { tags }, { token: by.token });
const tagged = async (query: string, by: CallOptions = { token: user.token }) =>
  (await ask<Listed>('GET', `/devices?${query}`, undefined, by)).data;
const idsOf = ({ list }: Listed) => list.map(({ deviceId }) => deviceId);
const groupOf = async (body: object) => (await ask<Made>('POST', '/groups', { name: 'G', ...body })).data;
const stateOf = async ({ groupId }: Made, by: CallOptions = { token: user.token }) =>
  (await ask<State>('GET', `/groups/${groupId}`, undefined, by)).data;
const refused = (word: string) => ({ status: 400, message: expect.stringContaining(word) as string });
const command = { action: 'toggle', position: 'up' };
const unknownId = 'dev_00000000';
const item = { deviceId: unknownId, command };

describe('tags of a device', () => {
  it('are set by its owner, replaced whole, and shown to its members', async () => {
    const device = await makeDevice(user);
    expect((await tag(device, ['attic', 'Büro 2'])).data.tags).toEqual(['attic', 'Büro 2']);
    await share(device, other, 'operator', user);
    expect(await tag(device, ['mine'], other)).toMatchObject({ status: 403 });
    expect((await tagged('tag=attic', { token: other.token })).list).toMatchObject([{ tags: ['attic', 'Büro 2'] }]);
    expect((await tag(device, ['cellar'])).data.tags).toEqual(['cellar']);
    expect((await tagged('tag=attic')).total).toBe(0);
    expect((await ask<Listed>('GET', `/devices/${device.deviceId}`)).data).toMatchObject({ tags: ['cellar'] });
  });

  it.each<[string, unknown]>([
    ['17 of them', Array.from({ length: 17 }, (_, index) => `tag ${index}`)],
    ['one twice', ['a', 'a']],
    ['an empty one', ['']],
    ['one of 33 characters', ['x'.repeat(33)]],
    ['a space at an end', ['attic ']],
    ['other characters', ['a/b']],
    ['a text', 'attic'],
  ])('are not %s', async (_, tags) => {
    const device = await makeDevice(user);
    expect(await tag(device, tags)).toMatchObject(refused('invalid_request: tags'));
    expect(
      (
        await tag(
          device,
          Array.from({ length: 16 }, (__, index) => `${index}`.padEnd(32, 'x')),
        )
      ).status,
    ).toBe(200);
  });

  it('filter lists, beside other filters, with their totals and cursors', async () => {
    const make = () => makeDevice(user);
    const [first, second, third, shared] = [await make(), await make(), await make(), await makeDevice(other)];
    for (const device of [first, second]) await tag(device, ['attic', 'lamp']);
    await tag(third, ['lamp']);
    await tag(shared, ['attic'], other);
    await share(shared, user, 'viewer', other);
    const attic = await tagged('tag=attic');
    expect([attic.total, idsOf(attic).toSorted()]).toEqual([
      3,
      [first, second, shared].map((one) => one.deviceId).sort(),
    ]);
    expect(await tagged('tag=attic&role=owner')).toMatchObject({ total: 2, list: [{}, {}] });
    expect(await tagged('tag=attic&role=viewer')).toMatchObject({ total: 1, list: [{ deviceId: shared.deviceId }] });
    const ofFirst = { total: 1, list: [{ deviceId: first.deviceId }] };
    expect(await tagged(`tag=attic&productKey=${first.productKey}`)).toMatchObject(ofFirst);
    expect((await tagged('tag=att')).total).toBe(0);
    expect((await tagged('tag=lamp&status=online')).total).toBe(0);
    const { next } = await tagged('tag=attic&size=2&after=');
    expect([...idsOf(await tagged('tag=attic&size=2')), ...idsOf(await tagged(`tag=attic&after=${next}`))]).toEqual(
      idsOf(attic),
    );
    expect(idsOf(await tagged('tag=attic&size=2&page=2'))).toEqual(idsOf(attic).slice(2));
    expect(await ask('GET', '/devices?tag=attic&search=Sw')).toMatchObject(refused('tag: not with search'));
  });

  it('are gone with the device to another owner', async () => {
    const device = await makeDevice(user);
    await tag(device, ['attic']);
    await handOver(device.deviceId, user, other);
    const seen = () => tagged('', { token: other.token });
    await expect.poll(seen).toMatchObject({ list: [{ deviceId: device.deviceId, tags: [] }] });
    expect((await tag(device, ['mine'], other)).status).toBe(200);
    expect((await tag(device, ['attic'])).status).toBe(403);
    await ask('POST', `/devices/${device.deviceId}/release`, {}, { token: other.token });
    await expect.poll(() => tagged('')).toMatchObject({ list: [{ deviceId: device.deviceId, tags: [] }] });
  });
});

describe.each([
  ['group', { deviceIds: [unknownId] }],
  ['scene', { items: [item] }],
] as const)('a %s', (kind, content) => {
  const path = `/${kind}s`;
  const body = { name: 'Evening', ...content };
  const make = async () => (await ask<Made>('POST', path, body)).data;
  const idIn = (made: Made) => made[`${kind}Id`];

  it('is made, listed, changed and deleted', async () => {
    const made = await make();
    expect(made).toMatchObject(body);
    const changed = (await ask<Made>('PATCH', `${path}/${idIn(made)}`, { name: 'Night' })).data;
    expect(changed).toEqual({ ...made, name: 'Night' });
    expect((await ask('GET', `${path}/${idIn(made)}`)).data).toMatchObject(changed);
    const second = await make();
    expect((await ask('GET', path)).data).toMatchObject({ total: 2 });
    expect((await ask('GET', `${path}?size=1&page=2`)).data).toMatchObject({ list: [{}], total: 2 });
    expect((await ask('DELETE', `${path}/${idIn(made)}`)).data).toEqual({ [`${kind}Id`]: idIn(made) });
    expect(await ask('DELETE', `${path}/${idIn(made)}`)).toMatchObject({ status: 404 });
    expect((await ask('GET', path)).data).toEqual({ list: [second], total: 1, page: 1, size: 20 });
  });

  it('is not found by another user, nor as the other kind', async () => {
    const id = idIn(await make());
    const byOther = { token: other.token };
    expect(await ask('PATCH', `${path}/${id}`, { name: 'Mine' }, byOther)).toMatchObject({ message: 'not_found' });
    expect((await ask('GET', path, undefined, byOther)).data).toMatchObject({ total: 0 });
    expect((await ask('GET', `/${kind === 'group' ? 'scene' : 'group'}s/${id}`)).status).toBe(404);
    expect((await ask('GET', `${path}/${id}`)).data).toMatchObject(body);
  });

  it('may be had a hundred times, by simultaneous requests as well', async () => {
    for (let made = 0; made < 95; made += 5) await Promise.all(Array.from({ length: 5 }, make));
    const last = await Promise.all(Array.from({ length: 8 }, () => ask<Made>('POST', path, body)));
    expect(last.map(({ message }) => message).sort()).toEqual([
      ...Array<string>(5).fill('success'),
      ...Array<string>(3).fill(`too_many_${kind}s`),
    ]);
    await ask('DELETE', `${path}/${idIn(last.find(({ code }) => code === 200)!.data)}`);
    expect((await ask('POST', path, body)).status).toBe(200);
    expect((await ask('POST', path, body, { token: other.token })).status).toBe(200);
  });

  it('is deleted with the account', async () => {
    const id = idIn(await make());
    expect((await operate('/accounts/delete', { name: user.email, cursor: 0 })).status).toBe(200);
    expect(await env.DB.prepare('select * from collections where id = ?').bind(id).first()).toBeNull();
  });
});

const sceneOf = (items: object[], more: object = {}) => ({ name: 'S', items, ...more });
it.each<[string, object, string]>([
  ['group of nothing', {}, 'deviceIds'],
  ['group of devices and a tag', { deviceIds: [unknownId], tag: 'attic' }, 'deviceIds'],
  ['group of a product without a tag', { deviceIds: [unknownId], productKey: 'lamp' }, 'productKey'],
  ['group of no device', { deviceIds: [] }, 'deviceIds'],
  ['group of 501 devices', { deviceIds: Array.from({ length: 501 }, (_, index) => `dev_${index}`) }, 'deviceIds'],
  ['group of a device twice', { deviceIds: [unknownId, unknownId] }, 'deviceIds'],
  ['group of a long id', { deviceIds: ['d'.repeat(65)] }, 'deviceIds'],
  ['group of a name of 101 characters', { name: 'n'.repeat(101), tag: 'attic' }, 'name'],
  ['scene of no items', sceneOf([]), 'items'],
  [
    'scene of 51 items',
    sceneOf(Array.from({ length: 51 }, (_, index) => ({ deviceId: `${index}`, command }))),
    'items',
  ],
  ['scene of two items for one device', sceneOf([item, item]), 'items: one for each'],
  ['scene without a command', sceneOf([{ deviceId: unknownId }]), 'no_control_params'],
  ['scene of a wrong command', sceneOf([{ ...item, command: { action: 'jump' } }]), 'invalid_control_params'],
  ['scene of 4 seconds', sceneOf([item], { deadlineSeconds: 4 }), 'deadlineSeconds'],
  ['scene of 61 seconds', sceneOf([item], { deadlineSeconds: 61 }), 'deadlineSeconds'],
])('there is no %s', async (what, wrong, problem) => {
  const isGroup = what.startsWith('group');
  const path = isGroup ? '/groups' : '/scenes';
  expect(await ask('POST', path, { name: 'G', ...wrong })).toMatchObject(refused(problem));
  const right = isGroup ? { name: 'G', tag: 'attic' } : sceneOf([item]);
  const { groupId, sceneId } = (await ask<Made>('POST', path, right)).data;
  const change = { ...(isGroup && { tag: null }), ...wrong };
  expect(await ask('PATCH', `${path}/${groupId ?? sceneId}`, change)).toMatchObject(refused(problem));
});

describe('GET /groups/{groupId}', () => {
  const online = async (position?: string) => {
    const device = await makeDevice(user);
    await reportConnected(device);
    if (position !== undefined) await bringUp(device, report({ position }));
    return device;
  };

  it('counts where its devices are, offline ones and those that are not to be read apart', async () => {
    const foreign = await makeDevice(other);
    const [up, down, silent, offline] = [await online('up'), await online('down'), await online(), await online('up')];
    await reportDisconnected(offline);
    const devices = [up, down, silent, offline, foreign, { deviceId: unknownId }, { deviceId: 'x' }];
    const group = await groupOf({ deviceIds: devices.map(({ deviceId }) => deviceId) });
    const { changed, woken } = countWoken();
    const { data } = await callWith<State>(changed, 'GET', `/groups/${group.groupId}`, { token: user.token });
    expect(data.counts).toEqual({ up: 1, middle: 0, down: 1, unknown: 3, offline: 1, forbidden: 1 });
    const nothing = { name: null, online: false, position: null };
    expect(data.devices).toMatchObject([
      { deviceId: up.deviceId, online: true, position: 'up' },
      { deviceId: down.deviceId, online: true, position: 'down' },
      { deviceId: silent.deviceId, online: true, position: null },
      { deviceId: offline.deviceId, online: false, position: 'up' },
      { deviceId: foreign.deviceId, ...nothing, refused: 'forbidden' },
      { deviceId: unknownId, ...nothing, refused: 'device_not_found' },
      { deviceId: 'x', ...nothing, refused: 'device_not_found' },
    ]);
    expect(woken.toSorted()).toEqual([up, down, silent, offline, foreign].map(({ deviceId }) => deviceId).toSorted());
    const key = await createKey(user, { scopes: ['manage'] });
    expect((await stateOf(group, { key })).counts).toMatchObject({ forbidden: 5, unknown: 2 });
  });

  it('has whatever has its tag at the time, of its product', async () => {
    const [first, second] = [await online('up'), await online('middle')];
    const all = await groupOf({ tag: 'attic' });
    const some = await groupOf({ tag: 'attic', productKey: first.productKey });
    expect((await stateOf(all)).devices).toEqual([]);
    for (const device of [first, second]) await tag(device, ['attic']);
    expect((await stateOf(all)).counts).toMatchObject({ up: 1, middle: 1 });
    expect((await stateOf(some)).devices).toMatchObject([{ deviceId: first.deviceId }]);
    const key = await createKey(user, { productKey: second.productKey });
    expect((await stateOf(all, { key })).devices).toMatchObject([{ deviceId: second.deviceId }]);
    expect((await stateOf(some, { key })).devices).toEqual([]);
    await tag(first, []);
    expect((await stateOf(all)).counts).toMatchObject({ up: 0, middle: 1 });
  });

  it('has the newest 500 of a tag, which a command to all of them would reach', async () => {
    const productKey = await makeProduct(user);
    await insertRecords({ ownerId: user.userId, productKey, count: 501 });
    await env.DB.prepare(`update devices set tags = '["many"]' where owner_id = ?`).bind(user.userId).run();
    const group = await groupOf({ tag: 'many' });
    const { devices, counts } = await stateOf(group);
    expect([devices.length, counts['unknown'], devices[0]?.deviceId.slice(-4)]).toEqual([500, 500, '_501']);
    const idsFor = ({ userId }: TestUser, choice: object) =>
      deviceIdsOf(createContext(env, readConfig(env)), inPerson(userId), choice);
    for (const choice of [group, { tag: 'many', productKey }]) expect(await idsFor(user, choice)).toHaveLength(500);
    expect(await idsFor(other, { deviceIds: ['x'] })).toEqual(['x']);
    expect(await idsFor(other, { tag: 'many' })).toEqual([]);
    await expect(idsFor(other, { groupId: group.groupId })).rejects.toThrow('not_found');
  });
});
