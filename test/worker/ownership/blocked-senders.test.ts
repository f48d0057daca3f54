// Senders whom a user blocks, and how many invitations and offers may be open.
import { env } from 'cloudflare:workers';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { call, createUser, makeDevice, type TestUser } from '../rig/clients/client.ts';
import { insertRecords } from '../rig/records.ts';
import {
  accept,
  activate,
  device,
  friend,
  incomingOf,
  invite,
  makeFriendAndDevice,
  owner,
  signUpUsers,
  stranger,
} from '../rig/sharing.ts';

beforeAll(signUpUsers);
beforeEach(makeFriendAndDevice);

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
