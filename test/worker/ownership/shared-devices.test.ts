// What a member sees of a shared device: lists of own and shared ones, and the relay, until the membership ends.
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { RelayGateway } from '../../../src/objects/relay/relay-gateway.ts';
import { call, createUser, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { handOver } from '../rig/ownership.ts';
import { sessionOf } from '../rig/provision.ts';
import {
  comeOnline,
  forbidden,
  itemOf,
  openRelay,
  ping,
  pong,
  report,
  shard,
  subscribed,
} from '../rig/clients/relay.ts';
import {
  type Listed,
  owner,
  friend,
  productKey,
  device,
  signUpUsers,
  makeFriendAndDevice,
  remove,
  listFor,
  share,
} from '../rig/sharing.ts';

beforeAll(signUpUsers);
beforeEach(makeFriendAndDevice);

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
    await vi.waitUntil(() => isListed('?status=online'), { timeout: 8_000 });
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
  async function follow(user: TestUser, topic: string) {
    const socket = await openRelay();
    await socket.ask({ action: 'auth', token: user.token });
    return { socket, answer: await socket.ask({ action: 'subscribe', topic }) };
  }

  it('lets a viewer follow, and ends that at once with the membership, not what the owner follows', async () => {
    const topic = topicOf(device, 'status');
    expect((await follow(friend, topic)).answer).toEqual(forbidden(topic));
    await share(device, friend);
    const [viewer, own] = [await follow(friend, topic), await follow(owner, topic)];
    expect([viewer.answer, own.answer]).toEqual([subscribed(topic), subscribed(topic)]);
    await comeOnline(device);
    expect(await viewer.socket.next()).toMatchObject({ topic });
    expect(await own.socket.next()).toMatchObject({ topic });
    await remove(device, friend);
    await comeOnline(device);
    expect(await own.socket.next()).toMatchObject({ topic });
    expect(await viewer.socket.ask(ping), 'nothing was pushed').toEqual(pong);
    expect(await viewer.socket.ask({ action: 'subscribe', topic })).toEqual(forbidden(topic));
  });

  it.each(['viewer', 'operator'])(
    'brings a %s all that is shared, its state first, and nothing of it from the removal on',
    async (role) => {
      const everything = '/sys/+/+/status';
      await share(device, friend, role);
      await comeOnline(device);
      const own = await follow(friend, everything);
      expect(own.answer).toEqual(subscribed(everything));
      const { socket } = own;
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
    },
  );

  it('is told again of a removal that it missed', async () => {
    const topic = topicOf(device, 'status');
    await share(device, friend);
    const viewer = await follow(friend, topic);
    const away = vi.spyOn(RelayGateway.prototype, 'endSubscriptions').mockImplementation(() => {
      throw new Error('the shard is away');
    });
    expect(await remove(device, friend)).toMatchObject({ code: 200 });
    expect(away).toHaveBeenCalled();
    away.mockRestore();
    await comeOnline(device);
    expect(await viewer.socket.ask(ping), 'nothing was pushed before it was told').toEqual(pong);
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
    expect(await viewer.socket.ask(ping), 'nothing was pushed').toEqual(pong);
  });

  it('pushes nothing to the former owner where it missed that the device has another one', async () => {
    const topic = topicOf(device, 'status');
    const [former, theirs] = [await follow(owner, topic), await openRelay()];
    const unreachable = () => {
      throw new Error('the shard is away');
    };
    const away = [
      vi.spyOn(RelayGateway.prototype, 'revoke').mockImplementation(unreachable),
      vi.spyOn(RelayGateway.prototype, 'endSubscriptions').mockImplementation(unreachable),
    ];
    expect(await handOver(device.deviceId, owner, friend)).toMatchObject({ deviceId: device.deviceId });
    await vi.waitFor(() => away.forEach((one) => expect(one).toHaveBeenCalled()), 15_000);
    await theirs.ask({ action: 'auth', token: friend.token });
    expect(await theirs.ask({ action: 'subscribe', topic })).toEqual(subscribed(topic));
    await comeOnline(device);
    expect(await theirs.next()).toMatchObject({ topic });
    expect(await former.socket.ask(ping), 'nothing was pushed').toEqual(pong);
    vi.restoreAllMocks();
  });
});
