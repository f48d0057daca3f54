// What a user is told of the safety of the account: the list, its bounds, the log lines and the mails.
import { env } from 'cloudflare:workers';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { deleteExpiredRows } from '../../../src/db/expired-rows.ts';
import { putSecurityEvent } from '../../../src/db/accounts/security-events.ts';
import { sampleInfoLines } from '../../../src/log.ts';
import { maxEventsPerUser } from '../../../src/services/accounts/security-events.ts';
import { logIn, newEmail, password, register } from '../rig/accounts.ts';
import { call, createUser, makeProduct } from '../rig/clients/client.ts';
import { callWith } from '../rig/limited.ts';
import { arrived, catchMails, prove, tokenIn, withMail } from '../rig/mails.ts';
import { activate, tokenOf } from '../rig/ownership.ts';
import { contextOf } from '../rig/outbox.ts';
import { share } from '../rig/sharing.ts';

type Event = { kind: string; at: string; count: number; clientAddress: string | null; detail: Record<string, unknown> };
type Page = { list: Event[]; total: number };

const ninetyDaysMs = 90 * 86_400_000;
const from = (address: string) => ({ 'CF-Connecting-IP': address });
const list = async ({ token }: { token: string }, query = '') =>
  (await call<Page>('GET', `/users/me/security-events${query}`, { token })).data;
const kindsOf = async (user: { token: string }) => (await list(user, '?size=100')).list.map(({ kind }) => kind);
const database = () => contextOf(env).primary();

async function newAccount() {
  const email = newEmail();
  return { email, userId: (await register(email)).data.userId };
}

/** Events are kept beside the requests that caused them. */
async function expectEvents(user: { token: string }, kinds: string[]): Promise<void> {
  await vi.waitFor(async () => {
    expect((await kindsOf(user)).filter((kind) => kind !== 'signed_in').sort()).toEqual([...kinds].sort());
  });
}

afterEach(() => sampleInfoLines(1, Infinity));

describe('security events', () => {
  it('leave out no sign-in, key, ended session or changed password', async () => {
    const { email } = await newAccount();
    const { token } = (await logIn(email, password, from('192.0.2.7'))).data;
    const other = (await logIn(email, password, from('2001:db8:1:2:3::4'))).data;
    const headers = from('192.0.2.7');
    const { keyId } = (await call<{ keyId: string }>('POST', '/users/api-keys', { token, headers, body: {} })).data;
    await call('DELETE', `/users/api-keys/${keyId}`, { token, headers });
    await call('DELETE', '/users/me/sessions?keep=current', { token, headers });
    const body = { oldPassword: password, newPassword: 'another horse' };
    await call('PUT', '/users/password', { token, headers, body });
    await expectEvents({ token }, ['key_made', 'key_deleted', 'session_ended', 'password_changed']);
    const { list: events, total } = await list({ token });
    expect(total).toBe(6);
    expect(events).toContainEqual({
      kind: 'key_made',
      at: expect.stringMatching(/Z$/) as string,
      count: 1,
      clientAddress: '192.0.2.7',
      detail: { keyId },
    });
    const signIns = events.filter(({ kind }) => kind === 'signed_in');
    expect(signIns.map(({ clientAddress }) => clientAddress).sort()).toEqual(['192.0.2.7', '2001:db8:1:2::/64']);
    expect((await list({ token }, '?page=2&size=4')).list).toHaveLength(2);
    expect((await call('GET', '/users/me/security-events', { token: other.token })).status).toBe(401);
  });

  it('tell an owner of claims, members and transfers, and nobody the address of somebody else', async () => {
    const [maker, owner, member, buyer] = [
      await createUser(),
      await createUser(),
      await createUser(),
      await createUser(),
    ];
    const productKey = await makeProduct(maker);
    const { deviceId } = (await activate(productKey, await tokenOf(owner))).data;
    await share({ deviceId, productKey }, member, 'viewer', owner);
    const path = `/devices/${deviceId}`;
    const { token } = owner;
    await call('PATCH', `${path}/members/${member.userId}`, { token, body: { role: 'operator' } });
    await call('DELETE', `${path}/members/${member.userId}`, { token });
    await call('POST', `${path}/transfer`, { token, body: { email: buyer.email } });
    await call('POST', `${path}/transfer/accept`, { token: buyer.token, headers: from('192.0.2.99') });
    const kinds = ['device_claimed', 'member_joined', 'role_changed', 'member_removed', 'device_transferred'];
    await expectEvents(owner, kinds);
    await call('POST', `${path}/release`, { token: buyer.token });
    await expectEvents(buyer, ['device_transferred', 'device_released']);
    await expectEvents(maker, []);
    const unwanted = (await activate(productKey, await tokenOf(buyer), { deviceSN: 'SN-2' })).data;
    await call('DELETE', `/devices/${unwanted.deviceId}/claim`, { token: maker.token });
    await expectEvents(maker, ['claim_undone']);
    await expectEvents(buyer, ['device_transferred', 'device_released', 'device_claimed', 'claim_undone']);
    expect(JSON.stringify(await list(owner))).not.toContain('192.0.2.99');
    expect(JSON.stringify(await list(buyer))).toContain('192.0.2.99');
  });
});

describe('a flood', () => {
  it('of wrong passwords fills no table: one row an hour, with a count', async () => {
    const { email } = await newAccount();
    for (const host of [1, 2, 3]) await logIn(email, 'wrong password', from(`198.51.100.${host}`));
    const session = (await logIn(email, password, from('192.0.2.7'))).data;
    await vi.waitFor(async () => {
      const { list: events } = await list(session);
      expect(events.filter(({ kind }) => kind === 'wrong_password')).toMatchObject([
        { count: 3, clientAddress: expect.stringMatching(/^198\.51\.100\.[123]$/) as string, detail: {} },
      ]);
    });
  });

  it('of other events keeps the newest, and those of other users', async () => {
    const [user, other] = [await createUser(), await createUser()];
    const [first, last] = [Date.now() - 7_200_000, Date.now()];
    const values = Array.from({ length: maxEventsPerUser + 20 }, (_, number) => number);
    const rows = JSON.stringify(values);
    await env.DB.prepare(
      "insert into security_events (user_id, kind, detail, created_at) select ?, 'key_made', '{}', ? + value from json_each(?)",
    )
      .bind(user.userId, first, rows)
      .run();
    const detail = { keyId: 'ak_last' };
    const row = { kind: 'key_made' as const, clientAddress: null, detail, createdAt: last };
    for (const { userId } of [other, user]) await putSecurityEvent(database(), { ...row, userId }, maxEventsPerUser);
    const { list: events, total } = await list(user);
    expect(total).toBe(maxEventsPerUser);
    expect(events[0]?.detail).toEqual({ keyId: 'ak_last' });
    expect((await list(other)).total).toBe(1);
  });

  it('does not make two events of different keys, or of different hours, one', async () => {
    const { userId, token } = await createUser();
    const event = { userId, kind: 'key_made' as const, clientAddress: '192.0.2.7', createdAt: Date.now() };
    const anHourAgo = event.createdAt - 3_600_001;
    for (const [keyId, createdAt] of [
      ['a', anHourAgo],
      ['a', event.createdAt],
      ['a', event.createdAt],
      ['b', event.createdAt],
    ] as const) {
      await putSecurityEvent(database(), { ...event, detail: { keyId }, createdAt }, maxEventsPerUser);
    }
    const made = (await list({ token })).list.filter(({ kind }) => kind === 'key_made');
    expect(made.map(({ detail, count }) => [detail['keyId'], count])).toEqual([
      ['b', 1],
      ['a', 2],
      ['a', 1],
    ]);
  });
});

it('keeps no event for longer than 90 days', async () => {
  const { userId, token } = await createUser();
  for (const ageMs of [ninetyDaysMs + 7_200_000, ninetyDaysMs - 60_000]) {
    const event = { userId, kind: 'password_changed' as const, clientAddress: null, detail: {} };
    await putSecurityEvent(database(), { ...event, createdAt: Date.now() - ageMs }, maxEventsPerUser);
  }
  await deleteExpiredRows(database(), Date.now());
  await expectEvents({ token }, ['password_changed']);
});

it('samples no log line of a security event', async () => {
  const { email, userId } = await newAccount();
  sampleInfoLines(0, Infinity);
  const lines = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  await logIn(email, 'wrong password', from('192.0.2.7'));
  const written = lines.mock.calls.map(([line]) => JSON.parse(String(line)) as object);
  const event = { event: 'security event', userId, kind: 'wrong_password', clientAddress: '192.0.2.7' };
  expect(written).toContainEqual(expect.objectContaining(event));
});

describe('a mail', () => {
  const logInWithMail = async (email: string, address: string) => {
    const options = { headers: from(address), body: { email, password } };
    return (await callWith<{ token: string }>(withMail, 'POST', '/users/login', options)).data;
  };
  it('leaves no new key and no sign-in from a new network unnoticed, and tells of no other', async () => {
    const { email, userId } = await newAccount();
    await prove({ userId });
    const mails = catchMails();
    const { token } = await logInWithMail(email, '192.0.2.7');
    await logInWithMail(email, '192.0.2.7');
    await logInWithMail(email, '198.51.100.9');
    const told = { to: email, text: expect.stringMatching(/signed in[^]*198\.51\.100\.9/) as string };
    await vi.waitFor(() => expect(mails).toMatchObject([told]));
    for (let count = 0; count < 5; count++) {
      const { keyId } = (await callWith<{ keyId: string }>(withMail, 'POST', '/users/api-keys', { token, body: {} }))
        .data;
      await vi.waitFor(async () => expect(JSON.stringify(await list({ token }))).toContain(keyId));
    }
    expect(mails.slice(1).map(({ text }) => text.includes('API key was made'))).toEqual([true, true, true]);
  });

  it('comes with the first sign-in from a network after 90 days without one', async () => {
    const { email, userId } = await newAccount();
    await prove({ userId });
    await env.DB.prepare('update users set created_at = 1 where id = ?').bind(userId).run();
    const mails = catchMails();
    await logInWithMail(email, '192.0.2.7');
    await arrived(mails, 1);
  });

  it('tells of a password that was reset', async () => {
    const { email, userId } = await newAccount();
    const mails = catchMails();
    await callWith(withMail, 'POST', '/users/password-reset', { body: { email } });
    await arrived(mails, 1);
    const token = tokenIn(mails[0]);
    await prove({ userId });
    await callWith(withMail, 'PUT', '/users/password-reset', { body: { token, newPassword: 'another horse' } });
    await vi.waitFor(() => expect(mails[1]?.text).toContain('set anew'));
  });
});
