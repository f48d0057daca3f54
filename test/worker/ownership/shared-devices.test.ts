// What a member sees of a shared device: lists of own and shared ones, and the relay, until the membership ends. Senders whom a
// user blocks, and how many invitations and offers may be open.
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { recordTopic } from '../../../src/protocol/relay.ts';
import { RelayGateway } from '../../../src/objects/relay/relay-gateway.ts';
import { call, createUser, makeDevice, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { handOver } from '../rig/ownership.ts';
import { otherAddress } from '../rig/fleet.ts';
import { sessionOf } from '../rig/provision.ts';
import { insertRecords } from '../rig/records.ts';
import {
  comeOnline,
  forbidden,
  itemOf,
  listenAs,
  openRelay,
  ping,
  pong,
  report,
  shard,
  subscribed,
} from '../rig/clients/relay.ts';
import {
  accept,
  activate,
  device,
  friend,
  incomingOf,
  invite,
  listFor,
  prepareUsersAndDevice,
  owner,
  productKey,
  remove,
  share,
  stranger,
  type Listed,
} from '../rig/sharing.ts';

prepareUsersAndDevice();

describe('lists', () => {
  it('show own and shared devices with their roles, newest first, in pages and to the end', async () => {
    const user = await createUser();
    const own = await makeProduct(user);
    const expected: { deviceId: string; role: string }[] = [];
    for (const [index, role] of ['owner', 'viewer', 'operator', 'owner', 'viewer', 'viewer', 'owner'].entries()) {
      const body = { productKey: role === 'owner' ? own : productKey, deviceSN: `${own}-${index}` };
      const { deviceId } = (await call<{ deviceId: string }>('POST', '/devices/activate', { body })).data;
      if (role !== 'owner') await share({ deviceId, productKey }, user, role);
      expected.unshift({ deviceId, role });
    }
    const pick = ({ list }: Listed) => list.map(({ deviceId, role }) => ({ deviceId, role }));
    const all = await listFor(user);
    expect(all.total).toBe(7);
    expect(pick(all)).toEqual(expected);
    const pages = [];
    for (const page of [1, 2, 3, 4, 5]) pages.push(...pick(await listFor(user, `?size=2&page=${page}`)));
    expect(pages).toEqual(expected);
    const read = [];
    for (let after: string | null | undefined = ''; typeof after === 'string';) {
      const part: Listed = await listFor(user, `?size=3&after=${after}`);
      read.push(...pick(part));
      after = part.next;
    }
    expect(read).toEqual(expected);
    for (const role of ['owner', 'operator', 'viewer']) {
      const wanted = expected.filter((one) => one.role === role);
      const found = await listFor(user, `?role=${role}&size=100`);
      expect({ total: found.total, list: pick(found) }).toEqual({ total: wanted.length, list: wanted });
    }
    const ofProduct = await listFor(user, `?productKey=${productKey}&status=offline`);
    expect({ total: ofProduct.total, list: pick(ofProduct) }).toEqual({
      total: 4,
      list: expected.filter(({ role }) => role !== 'owner'),
    });
    expect(await listFor(user, '?status=online')).toMatchObject({ total: 0, list: [] });
    expect(await call('GET', '/devices?role=guest', { token: user.token })).toMatchObject({ code: 400 });
  });

  it('filter shared devices by the status that they have now', async () => {
    await share(device, friend);
    await comeOnline(device);
    const isListed = async (query: string) => (await listFor(friend, query)).total === 1;
    await vi.waitUntil(() => isListed('?status=online'));
    expect((await listFor(friend, '?status=online')).list).toMatchObject([{ deviceId: device.deviceId }]);
    await call('PATCH', `/devices/${device.deviceId}`, { token: owner.token, body: { disabled: true } });
    expect(await listFor(friend, '?status=disabled&role=viewer')).toMatchObject({ total: 1 });
    expect(await listFor(friend, '?status=online')).toMatchObject({ total: 0 });
    await call('PATCH', `/devices/${device.deviceId}/members/${friend.userId}`, {
      token: owner.token,
      body: { role: 'operator' },
    });
    expect(await listFor(friend, '?status=disabled&role=viewer')).toMatchObject({ total: 0 });
    expect(await listFor(friend, '?status=disabled&role=operator')).toMatchObject({ total: 1 });
  });
});

describe('the relay', () => {
  it('lets a viewer follow, and ends that at once with the membership, not what the owner follows', async () => {
    const topic = topicOf(device, 'status');
    const [viewer, own] = [await listenAs(friend), await listenAs(owner, topic)];
    expect(await viewer.ask({ action: 'subscribe', topic })).toEqual(forbidden(topic));
    await share(device, friend);
    expect(await viewer.ask({ action: 'subscribe', topic })).toEqual(subscribed(topic));
    await comeOnline(device);
    expect(await viewer.next()).toMatchObject({ topic });
    expect(await own.next()).toMatchObject({ topic });
    await remove(device, friend);
    await comeOnline(device);
    expect(await own.next()).toMatchObject({ topic });
    expect(await viewer.ask(ping), 'nothing was pushed').toEqual(pong);
    expect(await viewer.ask({ action: 'subscribe', topic })).toEqual(forbidden(topic));
  });

  it.each(['viewer', 'operator'])(
    'brings a %s all that is shared, its state first, nothing from the removal on, and all when it is shared again',
    async (role) => {
      const everything = '/sys/+/+/status';
      await share(device, friend, role);
      await comeOnline(device);
      const socket = await listenAs(friend, everything);
      socket.send({ action: 'subscribe', topic: everything, snapshot: true });
      const topic = topicOf(device, 'status');
      expect(await socket.next()).toEqual({ topic, payload: { status: 'online', time: expect.any(Number) as number } });
      expect(await socket.next()).toEqual(subscribed(everything));
      await report(itemOf(topic, '{"status":"offline"}'));
      expect(await socket.next()).toEqual({ topic, payload: { status: 'offline' } });
      expect(await remove(device, friend)).toMatchObject({ code: 200 });
      await report(itemOf(topic, '{"status":"online"}'));
      socket.send({ action: 'subscribe', topic: everything, snapshot: true });
      expect(await socket.next()).toEqual(subscribed(everything));
      expect(await socket.ask(ping)).toEqual(pong);
      const atOtherShard = await openRelay({ 'CF-Connecting-IP': otherAddress });
      await atOtherShard.ask({ action: 'auth', token: friend.token });
      expect(await atOtherShard.ask({ action: 'subscribe', topic: everything })).toEqual(subscribed(everything));
      await share(device, friend, role);
      await report(itemOf(topic, '{"status":"offline"}'));
      const again = { topic, payload: { status: 'offline' } };
      for (const each of [socket, atOtherShard]) expect(await each.next()).toEqual(again);
    },
  );

  it('tells users of changes of the record, of the deletion, and of members, also the user whose right ends', async () => {
    const body = { productKey, deviceSN: crypto.randomUUID() };
    type Made = { deviceId: string; mqtt: { username: string; password: string } };
    const { deviceId, mqtt } = (await call<Made>('POST', '/devices/activate', { body })).data;
    const made = { deviceId, productKey };
    const topic = topicOf(made, recordTopic);
    const own = await listenAs(owner, '/sys/+/+/record');
    const itself = await listenAs({ ...made, ...mqtt, name: mqtt.username }, `/sys/${productKey}/${deviceId}/#`);
    const told = (change: string) => ({ topic, payload: { change, time: expect.any(Number) as number } });
    await share(made, friend);
    expect(await own.next()).toEqual(told('members_changed'));
    const viewer = await listenAs(friend, topic);
    await call('PATCH', `/devices/${deviceId}`, { token: owner.token, body: { name: 'Hall' } });
    for (const socket of [own, viewer]) expect(await socket.next()).toEqual(told('record_changed'));
    await remove(made, friend);
    for (const socket of [own, viewer]) expect(await socket.next()).toEqual(told('members_changed'));
    expect(await itself.ask(ping)).toEqual(pong);
    await call('DELETE', `/devices/${deviceId}`, { token: owner.token });
    expect(await own.next()).toEqual(told('deleted'));
  });

  it('is told again of a removal that it missed', async () => {
    const topic = topicOf(device, 'status');
    await share(device, friend);
    const viewer = await listenAs(friend, topic);
    const away = vi.spyOn(RelayGateway.prototype, 'endSubscriptions').mockImplementation(() => {
      throw new Error('the shard is away');
    });
    expect(await remove(device, friend)).toMatchObject({ code: 200 });
    expect(away).toHaveBeenCalled();
    away.mockRestore();
    await comeOnline(device);
    expect(await viewer.ask(ping), 'nothing was pushed before it was told').toEqual(pong);
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 11_000);
    await runDurableObjectAlarm(sessionOf(device.deviceId));
    clock.mockRestore();
    const follows = () =>
      runInDurableObject(shard(), (_, state) =>
        state
          .getWebSockets()
          .some((socket) => JSON.stringify(socket.deserializeAttachment()).includes(device.deviceId)),
      );
    await vi.waitUntil(async () => !(await follows()));
    await comeOnline(device);
    expect(await viewer.ask(ping), 'nothing was pushed').toEqual(pong);
  });

  it('pushes nothing to the former owner where it missed that the device has another one', async () => {
    const topic = topicOf(device, 'status');
    const former = await listenAs(owner, topic);
    const unreachable = () => {
      throw new Error('the shard is away');
    };
    const away = [
      vi.spyOn(RelayGateway.prototype, 'revoke').mockImplementation(unreachable),
      vi.spyOn(RelayGateway.prototype, 'endSubscriptions').mockImplementation(unreachable),
    ];
    expect(await handOver(device.deviceId, owner, friend)).toMatchObject({ deviceId: device.deviceId });
    await vi.waitFor(() => away.forEach((one) => expect(one).toHaveBeenCalled()));
    const theirs = await listenAs(friend, topic);
    await comeOnline(device);
    expect(await theirs.next()).toMatchObject({ topic });
    expect(await former.ask(ping), 'nothing was pushed').toEqual(pong);
  });
});

type Page = { total: number; list: { userId: number; email: string }[] };
const senders = '/users/me/blocked-senders';
const block = ({ email }: TestUser, by = friend) => call<object>('POST', senders, { token: by.token, body: { email } });
const unblock = ({ userId }: TestUser) => call('DELETE', `${senders}/${userId}`, { token: friend.token });
const blocked = async () => (await call<Page>('GET', senders, { token: friend.token })).data;
const offer = ({ deviceId }: { deviceId: string }, { email }: { email: string }) =>
  call<object>('POST', `/devices/${deviceId}/transfer`, { token: owner.token, body: { email } });
const offersTo = async ({ token }: TestUser) =>
  (await call<{ total: number }>('GET', '/devices/transfers', { token })).data;
const shapeOf = ({ status, message, data }: { status: number; message: string; data: object }) => [
  status,
  message,
  Object.keys(data),
];

describe('a blocked sender', () => {
  it('reaches the user neither with open nor with new invitations, and is told nothing', async () => {
    const open = (await invite(device, friend)).data.invitationId;
    expect(await block(owner)).toMatchObject({ data: { userId: owner.userId } });
    const other = await activate();
    const [toFriend, toNobody] = [
      await invite(other, friend),
      await invite(await activate(), { email: 'no@example.test' }),
    ];
    expect(shapeOf(toFriend)).toEqual(shapeOf(toNobody));
    expect(await incomingOf(friend)).toMatchObject({ total: 0, list: [] });
    for (const id of [open, toFriend.data.invitationId]) {
      expect(await accept(id, friend)).toMatchObject({ code: 404 });
      expect(await call('DELETE', `/invitations/${id}`, { token: friend.token })).toMatchObject({ code: 404 });
    }
    const sent = await call('GET', `/devices/${other.deviceId}/invitations`, { token: owner.token });
    expect(sent).toMatchObject({ data: { total: 1, list: [{ email: friend.email }] } });
    expect(await blocked()).toEqual({
      total: 1,
      page: 1,
      size: 20,
      list: [{ userId: owner.userId, email: owner.email }],
    });
    expect((await unblock(owner)).status).toBe(200);
    expect(await unblock(owner)).toMatchObject({ status: 404 });
    expect(await call('DELETE', `${senders}/nobody`, { token: friend.token })).toMatchObject({ status: 404 });
    expect(await incomingOf(friend)).toMatchObject({ total: 2 });
  });

  it('reaches the user neither with open nor with new offers, and is told nothing', async () => {
    await offer(device, friend);
    expect(await offersTo(friend)).toMatchObject({ total: 1 });
    expect((await block(owner)).status).toBe(200);
    const other = await activate();
    expect(shapeOf(await offer(other, friend))).toEqual(
      shapeOf(await offer(await activate(), { email: 'no@example.test' })),
    );
    expect(await offersTo(friend)).toMatchObject({ total: 0, list: [] });
    for (const { deviceId } of [device, other]) {
      const answer = await call('POST', `/devices/${deviceId}/transfer/accept`, { token: friend.token });
      expect(answer).toMatchObject({ status: 404 });
      const ownership = await call('GET', `/devices/${deviceId}/ownership`, { token: owner.token });
      expect(ownership).toMatchObject({ data: { transfer: { email: friend.email } } });
    }
  });

  it('is somebody who sent something: who else has an account is not told', async () => {
    const answers = [await block(stranger), await block({ ...stranger, email: 'nobody@example.test' })];
    for (const answer of answers) expect(answer).toMatchObject({ status: 404, message: 'not_found' });
    await invite(device, friend);
    expect(await block(owner, stranger)).toMatchObject({ status: 404 });
    expect(await blocked()).toMatchObject({ total: 0 });
  });
});

describe('the number of open invitations', () => {
  /** Invitations of a new user by as many devices. */
  async function fill(
    count: number,
    email: string,
  ): Promise<TestUser & { device: { deviceId: string; productKey: string } }> {
    const sender = await createUser();
    const made = await makeDevice(sender);
    await insertRecords({ ownerId: sender.userId, productKey: made.productKey, count });
    await env.DB.prepare(
      `insert into device_invitations (id, device_row, email, folded_email, role, invited_by, created_at, expires_at)
       select device_id, id, ?1, ?1, 'viewer', owner_id, 1, 9e12 from devices where owner_id = ?2 and device_id <> ?3`,
    )
      .bind(email, sender.userId, made.deviceId)
      .run();
    return { ...sender, device: made };
  }
  const tooMany = { status: 400, message: expect.stringMatching(/^too_many_invitations/) as string };

  it('is not without end for one sender', async () => {
    const sender = await fill(99, 'somebody@example.test');
    const send = (name: string) => invite(sender.device, { email: `${name}@example.test` }, 'viewer', sender);
    expect((await send('last')).status).toBe(200);
    expect(await send('further')).toMatchObject(tooMany);
    expect((await send('last')).status).toBe(200);
    await env.DB.prepare('update device_invitations set expires_at = 1 where invited_by = ?').bind(sender.userId).run();
    expect((await send('further')).status).toBe(200);
  });

  it('is not without end for one recipient, who gets room by blocking a sender', async () => {
    const sender = await fill(199, friend.email);
    expect((await invite(device, friend)).status).toBe(200);
    const other = await activate();
    expect(await invite(other, friend)).toMatchObject(tooMany);
    expect((await invite(other, stranger)).status).toBe(200);
    expect((await block(sender)).status).toBe(200);
    expect((await invite(other, friend)).status).toBe(200);
    expect(await incomingOf(friend)).toMatchObject({ total: 2 });
  });

  it('and of offers has an end that no sender is told', async () => {
    const rows = `with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 200)
      insert into device_transfers (device_id, offer_id, from_user_id, to_user_id, offered_at, expires_at)
      select ?1 || n, 'x', ?2, ?3, 1, 9e12 from numbers`;
    await env.DB.prepare(rows).bind(crypto.randomUUID(), stranger.userId, friend.userId).run();
    expect((await offer(device, friend)).status).toBe(200);
    const accepted = () => call('POST', `/devices/${device.deviceId}/transfer/accept`, { token: friend.token });
    expect(await accepted()).toMatchObject({ status: 404 });
    await env.DB.prepare('delete from device_transfers where from_user_id = ?').bind(stranger.userId).run();
    await offer(device, friend);
    expect(await accepted()).toMatchObject({ status: 200 });
  });
});
