// The inbox of a user over HTTP: notices and their limits, what the user sets, whom a notice is pushed to. That devices raise
// notices: device-alerts.test.ts. What is in a push: push-message.test.ts.
import { runDurableObjectAlarm } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import type { Pushed } from '../../../rig/inputs/pushed.ts';
import type { Notice, NoticeChange } from '../../../src/domain/notices.ts';
import { call, createUser, type TestUser } from '../rig/clients/client.ts';

type Shown = { noticeId: string; cause: string; deviceId: string | null; at: string; isRead: boolean };
type Listed = { list: Shown[]; total: number; unread: number };

const quietHours = { from: '22:00', to: '06:00', zone: 'Europe/Berlin' };

let user: TestUser;
beforeEach(async () => {
  user = await createUser();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const inboxOf = ({ userId }: TestUser) => env.USER_INBOX.getByName(`user-${userId}`);
const ask = <T = never>(method: string, path: string, body?: object, { token } = user) =>
  call<T>(method, `/users/me/${path}`, { token, body });
const list = async (query = '', by = user) => (await ask<Listed>('GET', `notices${query}`, undefined, by)).data;
const raise = (key: string, more: Partial<Notice> = {}): NoticeChange => ({
  key,
  notice: {
    cause: 'offline',
    deviceId: 'dev_1',
    deviceName: 'Lamp',
    atMs: Date.now(),
    detail: { since: null },
    again: null,
    ...more,
  },
});

describe('notices', () => {
  it('are listed newest first, replaced by key, taken back, and marked as read', async () => {
    const inbox = inboxOf(user);
    await inbox.change([raise('a', { atMs: 1 }), raise('b', { atMs: 2, again: { action: 'trigger' } })]);
    await inbox.change([raise('a', { atMs: 3 }), raise('c', { atMs: 4 }), { key: 'c', notice: null }]);
    const { list: shown, ...counts } = await list('?size=1');
    expect(counts).toEqual({ total: 2, unread: 2, page: 1, size: 1 });
    expect(shown).toMatchObject([
      { cause: 'offline', deviceId: 'dev_1', deviceName: 'Lamp', at: new Date(3).toISOString() },
    ]);
    const noticeIds = [shown[0]!.noticeId, 'forgotten'];
    expect((await ask('PATCH', 'notices', { noticeIds })).data).toEqual({ unread: 1 });
    // Told again by a device that missed the answer.
    await inbox.change([raise('a', { atMs: 3 }), { key: 'never', notice: null }]);
    expect((await list()).list.map(({ isRead }) => isRead)).toEqual([true, false]);
    expect((await ask('PATCH', 'notices')).data).toEqual({ unread: 0 });
  });

  it('are a hundred at most, and of nobody else', async () => {
    await inboxOf(user).change(Array.from({ length: 105 }, (_, index) => raise(`${index}`, { atMs: index })));
    const { list: shown, total } = await list('?size=100');
    expect([total, shown.at(-1)?.at]).toEqual([100, new Date(5).toISOString()]);
    expect(await list('', await createUser())).toMatchObject({ list: [], total: 0, unread: 0 });
  });

  it('do not come of causes that are off', async () => {
    await ask('PUT', 'notice-settings', { off: ['run_failed'] });
    await inboxOf(user).change([raise('a', { cause: 'run_failed' }), raise('b')]);
    expect((await list()).list).toMatchObject([{ cause: 'offline' }]);
  });
});

describe('notice settings', () => {
  it('are the defaults until they are set whole', async () => {
    const defaults = { off: [], offlineAfterSeconds: null, handHours: null, quietHours: null };
    expect((await ask('GET', 'notice-settings')).data).toEqual(defaults);
    const settings = { off: ['security'], offlineAfterSeconds: 60, handHours: quietHours, quietHours };
    expect((await ask('PUT', 'notice-settings', settings)).data).toEqual(settings);
    expect((await ask('GET', 'notice-settings')).data).toEqual(settings);
    expect((await ask('PUT', 'notice-settings', {})).data).toEqual(defaults);
  });

  it.each([
    { quietHours: { ...quietHours, zone: 'Europe/Nowhere' } },
    { handHours: { ...quietHours, from: '24:00' } },
    { offlineAfterSeconds: 59 },
    { off: ['weather'] },
  ])('refuse %j', async (settings) => {
    expect(await ask('PUT', 'notice-settings', settings)).toMatchObject({ status: 400 });
  });
});

describe('push subscriptions', () => {
  const { keys, url } = inject('pushService');
  const subscribe = (endpoint: string) =>
    ask<{ subscriptionId: string; host: string }>('POST', 'push-subscriptions', {
      endpoint,
      keys,
      expirationTime: null,
    });
  const subscriptions = async (by = user) =>
    (await ask<{ publicKey: string | null; list: unknown[] }>('GET', 'push-subscriptions', undefined, by)).data;

  it('are ten at most, each endpoint one, and of nobody else', async () => {
    const made = (await subscribe('https://push.example.net/0')).data;
    expect(made.host).toBe('push.example.net');
    expect((await subscribe('https://push.example.net/0')).data).toEqual(made);
    for (let index = 1; index < 10; index++) await subscribe(`https://push.example.net/${index}`);
    expect(await subscribe('https://push.example.net/10')).toMatchObject({ message: 'too_many_push_subscriptions' });
    const { publicKey, list: all } = await subscriptions();
    expect([publicKey?.length, all.length, all.at(-2)]).toEqual([
      87,
      10,
      expect.not.objectContaining({ endpoint: '' }),
    ]);
    const other = await createUser();
    expect((await subscriptions(other)).list).toEqual([]);
    const path = `push-subscriptions/${made.subscriptionId}`;
    expect(await ask('DELETE', path, undefined, other)).toMatchObject({ status: 404 });
    expect(await ask('DELETE', path)).toMatchObject({ data: { subscriptionId: made.subscriptionId } });
    expect((await subscriptions()).list).toHaveLength(9);
  });

  it('go to public addresses alone', async () => {
    expect(await subscribe('https://127.0.0.1/push')).toMatchObject({ status: 400 });
  });

  let count = 0;
  /** A subscription whose push service answers with this status; the texts that it got. */
  async function subscribed(status: number) {
    const endpoint = `${url}/${status}/inbox-${++count}`;
    await inboxOf(user).subscribe({ endpoint, keys });
    return async () => (await (await fetch(endpoint)).json<Pushed[]>()).map(({ text }) => JSON.parse(text) as Shown);
  }

  /** Of each push that the inbox has still to send, whether it failed before. */
  const waiting = async () => (await inboxOf(user).read()).pushes.map(({ isSecond }) => isSecond);

  it('get each notice once, and end when they are gone', async () => {
    const [pushed, gone] = [await subscribed(201), await subscribed(410)];
    await inboxOf(user).change([raise('a', { again: { action: 'trigger' } })]);
    await expect.poll(waiting).toEqual([]);
    const { isRead: _, ...shown } = (await list()).list[0]!;
    expect(await pushed()).toEqual([shown]);
    expect(await gone()).toHaveLength(1);
    expect((await subscriptions()).list).toHaveLength(1);
  });

  it('get a notice twice if the push service fails, unless it is taken back', async () => {
    const failing = await subscribed(500);
    await inboxOf(user).change([raise('a'), raise('b')]);
    await expect.poll(waiting).toEqual([true, true]);
    await inboxOf(user).change([{ key: 'a', notice: null }]);
    const isRun: boolean[] = [];
    for (let alarm = 0; alarm < 2; alarm++) isRun.push(await runDurableObjectAlarm(inboxOf(user)));
    expect([isRun, (await failing()).length]).toEqual([[true, false], 3]);
  });

  it('get twenty notices an hour, and none in quiet hours or after their end', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { settings } = await inboxOf(user).read();
    const pushed = await subscribed(201);
    const inbox = inboxOf(user);
    await inbox.change(Array.from({ length: 25 }, (_, index) => raise(`${index}`)));
    await expect.poll(waiting).toEqual([]);
    expect(await pushed()).toHaveLength(20);
    vi.setSystemTime(Date.now() + 3_600_000);
    await inbox.change([raise('next hour')]);
    // The platform's clock is the real one.
    await runDurableObjectAlarm(inbox);
    expect(await pushed()).toHaveLength(21);
    await inbox.writeSettings({ ...settings, quietHours: { from: '00:00', to: '00:00', zone: 'UTC' } });
    await inbox.change([raise('at night')]);
    await inbox.writeSettings(settings);
    await inbox.unsubscribe();
    await inbox.change([raise('after the end')]);
    await runDurableObjectAlarm(inbox);
    expect(await pushed()).toHaveLength(21);
    expect((await list()).total).toBe(28);
  });
});
