// Sharing a device: invitations, members, and what ends with a membership. What members see of it is in shared-devices.
import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { TestBridge } from '../rig/clients/bridge.ts';
import { call, createUser, type TestUser } from '../rig/clients/client.ts';
import { callWith } from '../rig/limited.ts';
import { sessionOf } from '../rig/provision.ts';
import {
  owner,
  friend,
  stranger,
  device,
  prepareUsersAndDevice,
  activate,
  invite,
  accept,
  remove,
  statusFor,
  listFor,
  incomingOf,
  share,
} from '../rig/sharing.ts';

prepareUsersAndDevice();

const party = { email: 'member@example.test', address: null };

describe('an invitation', () => {
  it('is answered the same whether the email has an account or not', async () => {
    const [known, unknown] = [await invite(device, friend), await invite(device, { email: 'nobody@example.test' })];
    for (const answer of [known, unknown]) {
      expect(answer).toMatchObject({ code: 200, message: 'success' });
      expect(Object.keys(answer.data)).toEqual(['invitationId', 'email', 'role', 'createdAt', 'expiresAt']);
    }
  });

  it('gives nothing until it is accepted, and then the role', async () => {
    const { data } = await invite(device, { email: ` ${friend.email.toUpperCase()}` }, 'operator');
    expect(await statusFor(device, friend)).toMatchObject({ code: 403 });
    expect(await incomingOf(friend)).toMatchObject({
      total: 1,
      list: [{ invitationId: data.invitationId, deviceId: device.deviceId, invitedBy: owner.email, role: 'operator' }],
    });
    expect(await accept(data.invitationId, friend)).toMatchObject({
      data: { ...{ deviceId: device.deviceId }, role: 'operator' },
    });
    expect(await statusFor(device, friend)).toMatchObject({ code: 200 });
    expect(await call('GET', `/devices/${device.deviceId}`, { token: friend.token })).toMatchObject({
      data: { role: 'operator' },
    });
    expect(await incomingOf(friend)).toMatchObject({ total: 0 });
    expect(await accept(data.invitationId, friend)).toMatchObject({ code: 404 });
  });

  it('ends when it is declined, withdrawn, too old or replaced', async () => {
    const first = (await invite(device, friend)).data.invitationId;
    expect(await call('DELETE', `/invitations/${first}`, { token: friend.token })).toMatchObject({ code: 200 });
    const second = (await invite(device, friend)).data.invitationId;
    const open = `/devices/${device.deviceId}/invitations`;
    expect(await call('GET', open, { token: owner.token })).toMatchObject({ data: { total: 1 } });
    expect(await call('DELETE', `${open}/${second}`, { token: owner.token })).toMatchObject({ code: 200 });
    expect(await call('DELETE', `${open}/${second}`, { token: owner.token })).toMatchObject({ code: 404 });
    const third = (await invite(device, friend)).data.invitationId;
    const fourth = (await invite(device, friend, 'operator')).data.invitationId;
    expect(await incomingOf(friend)).toMatchObject({ total: 1, list: [{ role: 'operator' }] });
    await env.DB.prepare('update device_invitations set expires_at = 1 where id = ?').bind(fourth).run();
    expect(await incomingOf(friend)).toMatchObject({ total: 0, list: [] });
    for (const id of [first, second, third, fourth]) expect(await accept(id, friend)).toMatchObject({ code: 404 });
    expect(await statusFor(device, friend)).toMatchObject({ code: 403 });
  });

  it('ends when its recipient is what it offers, and not with another change of the members', async () => {
    await share(device, friend);
    await invite(device, friend, 'operator');
    await share(device, stranger);
    expect(await incomingOf(friend)).toMatchObject({ total: 1 });
    const member = `/devices/${device.deviceId}/members/${friend.userId}`;
    await call('PATCH', member, { token: owner.token, body: { role: 'operator' } });
    expect(await incomingOf(friend)).toMatchObject({ total: 0 });
    await share(device, friend, 'operator');
    expect(await incomingOf(friend), 'of what the recipient was before').toMatchObject({ total: 0 });
  });

  it('is refused for what is no email or role, and for the own email', async () => {
    for (const body of [{}, { email: 'x', role: 'viewer' }, { email: friend.email, role: 'owner' }]) {
      const refused = await call('POST', `/devices/${device.deviceId}/members`, { token: owner.token, body });
      expect(refused).toMatchObject({ code: 400 });
    }
    expect(await invite(device, owner)).toMatchObject({
      code: 400,
      message: 'invalid_request: the device is your own',
    });
  });

  it('of an owner who is none any more gives nothing', async () => {
    const { invitationId } = (await invite(device, friend)).data;
    await env.DB.prepare('update device_invitations set invited_by = ? where id = ?')
      .bind(stranger.userId, invitationId)
      .run();
    expect(await accept(invitationId, friend)).toMatchObject({ code: 404 });
    expect(await statusFor(device, friend)).toMatchObject({ code: 403 });
  });

  it('to a device that is deleted while it is invited to is answered device_not_found', async () => {
    const lastMoment = (session: D1DatabaseSession) => ({
      prepare: (query: string) => session.prepare(query),
      batch: async (statements: D1PreparedStatement[]) => {
        await env.DB.prepare('delete from devices where device_id = ?').bind(device.deviceId).run();
        return session.batch(statements);
      },
    });
    const DB = { withSession: () => lastMoment(env.DB.withSession('first-primary')) };
    const body = { email: friend.email, role: 'viewer' };
    const path = `/devices/${device.deviceId}/members`;
    expect(await callWith({ DB }, 'POST', path, { token: owner.token, body })).toMatchObject({
      status: 404,
      message: 'device_not_found',
    });
  });
});

describe('members of a device', () => {
  it('are in its events with each change, whom it is about, and from where', async () => {
    const asked = async <T = unknown>(by: TestUser, address: string, method: string, path: string, body?: object) => {
      const headers = { 'CF-Connecting-IP': address };
      const answer = await call<T>(method, path, { token: by.token, headers, ...(body && { body }) });
      expect(answer).toMatchObject({ code: 200 });
      return answer.data;
    };
    const [ours, theirs] = ['203.0.113.1', '203.0.113.2'];
    const members = `/devices/${device.deviceId}/members`;
    const inviteAgain = (role: string) =>
      asked<{ invitationId: string }>(owner, ours, 'POST', members, { email: friend.email, role });
    const declined = await inviteAgain('viewer');
    await asked(friend, theirs, 'DELETE', `/invitations/${declined.invitationId}`);
    const withdrawn = await inviteAgain('viewer');
    await asked(owner, ours, 'DELETE', `/devices/${device.deviceId}/invitations/${withdrawn.invitationId}`);
    const taken = await inviteAgain('viewer');
    await asked(friend, theirs, 'POST', `/invitations/${taken.invitationId}/accept`);
    for (const role of ['operator', 'operator'])
      await asked(owner, ours, 'PATCH', `${members}/${friend.userId}`, { role });
    await asked(friend, theirs, 'DELETE', `${members}/${friend.userId}`);
    expect(await statusFor(device, friend), 'who has left').toMatchObject({ code: 403 });
    await share(device, friend);
    await asked(owner, ours, 'DELETE', `${members}/${friend.userId}`);
    const { list } = await asked<{ list: Record<string, unknown>[] }>(
      owner,
      ours,
      'GET',
      `/devices/${device.deviceId}/events?size=100`,
    );
    const seen = list.filter(({ status }) => status === 'sharing').toReversed();
    expect(seen.every(({ email, time }) => email === friend.email && typeof time === 'string')).toBe(true);
    expect(seen.map(({ reason, role, address }) => [reason, role, address])).toEqual([
      ['invited', 'viewer', ours],
      ['invitation_declined', null, theirs],
      ['invited', 'viewer', ours],
      ['invitation_withdrawn', null, ours],
      ['invited', 'viewer', ours],
      ['joined', 'viewer', theirs],
      ['role_changed', 'operator', ours],
      ['left', null, theirs],
      ['invited', 'viewer', 'unknown'],
      ['joined', 'viewer', 'unknown'],
      ['removed', null, ours],
    ]);
  });

  it('are listed, changed and removed by the owner alone', async () => {
    await share(device, friend);
    const path = `/devices/${device.deviceId}/members`;
    const { token } = owner;
    expect(await call('GET', path, { token })).toMatchObject({
      data: { total: 1, list: [{ userId: friend.userId, email: friend.email, role: 'viewer' }] },
    });
    const control = (user: TestUser) =>
      call('POST', `/devices/${device.deviceId}/control`, { token: user.token, body: {} });
    expect(await control(friend)).toMatchObject({ code: 400 });
    const press = { token: friend.token, body: { action: 'trigger' } };
    expect(await call('POST', `/devices/${device.deviceId}/control`, press)).toMatchObject({ code: 403 });
    const changed = await call('PATCH', `${path}/${friend.userId}`, { token, body: { role: 'operator' } });
    expect(changed).toMatchObject({ data: { userId: friend.userId, role: 'operator' } });
    await TestBridge.dialIn();
    expect(await call('POST', `/devices/${device.deviceId}/control`, press)).toMatchObject({ code: 200 });
    expect(await remove(device, owner)).toMatchObject({ code: 403 });
    expect(await remove(device, friend)).toMatchObject({ code: 200, data: { userId: friend.userId } });
    expect(await remove(device, friend)).toMatchObject({ code: 404, message: 'not_found' });
    expect(await statusFor(device, friend)).toMatchObject({ code: 403 });
    expect(await call('PATCH', `${path}/x`, { token, body: { role: 'viewer' } })).toMatchObject({ code: 404 });
  });

  it('stay members over the sleep of the object, and end with the device', async () => {
    await share(device, friend);
    await evictDurableObject(sessionOf(device.deviceId));
    expect(await statusFor(device, friend)).toMatchObject({ code: 200 });
    await call('DELETE', `/devices/${device.deviceId}`, { token: owner.token });
    expect(await listFor(friend)).toMatchObject({ total: 0, list: [] });
    const { results } = await env.DB.prepare('select * from device_members where user_id = ?')
      .bind(friend.userId)
      .all();
    expect(results).toEqual([]);
  });

  it('are known to the lists as soon as the database is back', async () => {
    await env.DB.prepare('alter table device_members rename to device_members_away').run();
    await sessionOf(device.deviceId).decide({
      kind: 'member_joined',
      userId: friend.userId,
      role: 'viewer',
      invitedBy: owner.userId,
      ...party,
    });
    await env.DB.prepare('alter table device_members_away rename to device_members').run();
    expect(await statusFor(device, friend)).toMatchObject({ code: 200 });
    expect(await listFor(friend)).toMatchObject({ total: 0 });
    const later = Date.now() + 11_000;
    const clock = vi.spyOn(Date, 'now').mockReturnValue(later);
    await runDurableObjectAlarm(sessionOf(device.deviceId));
    await vi.waitFor(async () => expect(await listFor(friend)).toMatchObject({ total: 1 }));
    clock.mockRestore();
  });
});

describe('at the same moment', () => {
  it('a transfer and the removal of a member leave the new owner alone with the device', async () => {
    for (const role of ['viewer', 'operator']) {
      const [one, buyer] = [await activate(), await createUser()];
      await share(one, friend, role);
      const path = `/devices/${one.deviceId}/transfer`;
      await call('POST', path, { token: owner.token, body: { email: buyer.email } });
      const [accepted, removed] = await Promise.all([
        call('POST', `${path}/accept`, { token: buyer.token }),
        remove(one, friend),
      ]);
      expect(accepted).toMatchObject({ code: 200 });
      // The former owner was in time, or had no right any more.
      expect([200, 403]).toContain(removed.code);
      for (const former of [owner, friend]) {
        expect(await statusFor(one, former)).toMatchObject({ code: 403 });
        expect((await listFor(former)).list.filter(({ deviceId }) => deviceId === one.deviceId)).toEqual([]);
      }
      expect(await statusFor(one, buyer)).toMatchObject({ code: 200 });
      const members = await call('GET', `/devices/${one.deviceId}/members`, { token: buyer.token });
      expect(members).toMatchObject({ data: { total: 0, list: [] } });
    }
  });

  it('a transfer and an acceptance make nobody a member of a device of another owner', async () => {
    const [one, buyer] = [await activate(), await createUser()];
    const { invitationId } = (await invite(one, friend)).data;
    const path = `/devices/${one.deviceId}/transfer`;
    await call('POST', path, { token: owner.token, body: { email: buyer.email } });
    const [transferred] = await Promise.all([
      call('POST', `${path}/accept`, { token: buyer.token }),
      accept(invitationId, friend),
    ]);
    expect(transferred).toMatchObject({ code: 200 });
    expect(await statusFor(one, friend)).toMatchObject({ code: 403 });
  });
});
