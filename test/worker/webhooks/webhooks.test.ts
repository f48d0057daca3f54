// Webhooks: the consent of a receiver, what it gets, failures and their pauses, secrets, limits. The receiver verifies with the
// reference package. That real sockets carry it: test/system/webhooks.test.ts.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { Webhook } from 'standardwebhooks';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { OutgoingEvent } from '../../../src/domain/webhooks/webhooks.ts';
import { WebhookEndpoint } from '../../../src/objects/webhooks/webhook-endpoint.ts';
import { operate } from '../rig/accounts.ts';
import { createKey } from '../rig/authorization-callers.ts';
import { call, createUser, makeDevice, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { report } from '../rig/clients/relay.ts';
import { reportOf } from '../rig/fleet.ts';
import { callWith } from '../rig/limited.ts';
import { reportConnected } from '../rig/provision.ts';
import { agree, makeWebhook, receiveWebhooks, webhookBody, type Made, type Received } from '../rig/webhooks.ts';

const body = webhookBody;

let user: TestUser;
let receiver: ReturnType<typeof receiveWebhooks>;
let received: Received[];

beforeEach(async () => {
  user = await createUser();
  receiver = receiveWebhooks();
  ({ received } = receiver);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const make = (more: object = {}) => makeWebhook(user, more);
const endpoint = ({ webhookId }: Made) => env.WEBHOOK_ENDPOINT.getByName(webhookId);
const ask = <T = never>(method: string, path: string, sent?: object) =>
  call<T>(method, `/webhooks${path}`, { token: user.token, body: sent });
const eventsFrom = (first: number, last: number): OutgoingEvent[] =>
  Array.from({ length: last - first + 1 }, (_, index) => ({
    number: first + index,
    type: 'device.online',
    time: Date.now(),
    data: { reason: 'connected' },
  }));
const laterThan = (answer: unknown, seconds: number) =>
  expect((answer as { laterAtMs: number }).laterAtMs).toBeGreaterThan(Date.now() + seconds * 1000);

describe('POST /webhooks', () => {
  it('makes one whose receiver answers the challenge, and shows its secret this once', async () => {
    const made = await make();
    expect(made).toMatchObject({ ...body, productKey: null, deviceIds: null, disabledBecause: null });
    expect(received).toMatchObject([{ type: 'endpoint.challenge' }]);
    expect(new Webhook(made.secret).verify(received[0]!.body, received[0]!.headers)).toBeTruthy();
    const { secret, ...shown } = made;
    expect((await ask('GET', '')).data).toMatchObject({ list: [shown], total: 1 });
    expect(JSON.stringify(await ask('GET', `/${made.webhookId}`))).not.toContain(secret);
  });

  it.each<[string, () => Response | Promise<Response>]>([
    ['another challenge', () => Response.json({ challenge: 'other' })],
    ['no JSON', () => new Response('thanks')],
    ['an error', () => Response.json({}, { status: 500 })],
    ['a redirect', () => Response.redirect('https://other.example/')],
    ['nothing', () => Promise.reject(new Error('Network connection lost.'))],
  ])('makes none whose receiver answers %s', async (_, answer) => {
    receiver.answerTo = answer;
    const refused = await ask('POST', '', body);
    expect([refused.status, refused.message.slice(0, 35)]).toEqual([400, 'invalid_request: url: has to answer']);
    expect((await ask<{ total: number }>('GET', '')).data.total).toBe(0);
  });

  it('asks no private address', async () => {
    expect(await ask('POST', '', { ...body, url: 'https://127.0.0.1/' })).toMatchObject({ status: 400 });
    expect(received).toEqual([]);
  });

  it('gives a user as many as allowed', async () => {
    const limited = { LIMITS: 'webhooksPerUser=1' };
    await make();
    expect(await callWith(limited, 'POST', '/webhooks', { token: user.token, body })).toMatchObject({
      message: 'too_many_webhooks',
    });
  });

  it('is for keys with `manage`; one that is held to a product sees no others', async () => {
    const made = await make();
    const productKey = await makeProduct(user);
    const key = await createKey(user, { scopes: ['manage'], productKey });
    expect(await call('POST', '/webhooks', { key, body })).toMatchObject({ status: 403 });
    expect(await call('POST', '/webhooks', { key, body: { ...body, productKey } })).toMatchObject({ status: 200 });
    expect(await call('GET', '/webhooks', { key })).toMatchObject({ data: { total: 1 } });
    expect(await call('GET', `/webhooks/${made.webhookId}`, { key })).toMatchObject({ status: 403 });
  });
});

describe('take', () => {
  it('delivers in order, after a gap what is left, and again under the same ids', async () => {
    const made = await make();
    const gap = { from: 1, to: 4 };
    const take = () => endpoint(made).take('dev_1', eventsFrom(5, 7), gap);
    expect(await take()).toEqual({ upTo: 7 });
    const messages = received.slice(1);
    expect(messages.map(({ id }) => id)).toEqual(['msg_dev_1_1-4', 'msg_dev_1_5', 'msg_dev_1_6', 'msg_dev_1_7']);
    expect(messages[0]).toMatchObject({ type: 'gap', data: { deviceId: 'dev_1', ...gap } });
    expect(messages[1]).toMatchObject({
      type: 'device.online',
      data: { deviceId: 'dev_1', number: 5, reason: 'connected' },
    });
    for (const { body: text, headers } of messages) expect(new Webhook(made.secret).verify(text, headers)).toBeTruthy();
    await take();
    expect(received.slice(5).map(({ id }) => id)).toEqual(messages.map(({ id }) => id));
    const deliveries = await ask<{ total: number }>('GET', `/${made.webhookId}/deliveries?size=1`);
    expect(deliveries.data).toMatchObject({
      total: 8,
      list: [{ messageId: 'msg_dev_1_7', status: 200, problem: null }],
    });
  });

  it('moves the cursor by what arrived; a message that fails holds up its own device alone', async () => {
    const made = await make();
    receiver.answerTo = ({ id }) => new Response(null, { status: id === 'msg_dev_1_2' ? 503 : 200 });
    const first = await endpoint(made).take('dev_1', eventsFrom(1, 3), null);
    expect(first).toMatchObject({ upTo: 1, failures: 1 });
    laterThan(first, 3);
    const second = await endpoint(made).take('dev_1', eventsFrom(2, 3), null, 1);
    expect(second).toMatchObject({ failures: 2 });
    laterThan(second, 23);
    expect(received.map(({ id }) => id).slice(1)).toEqual(['msg_dev_1_1', 'msg_dev_1_2', 'msg_dev_1_2']);
    expect(await endpoint(made).take('dev_2', eventsFrom(1, 1), null)).toEqual({ upTo: 1 });
  });

  it('tries one message at a time at a receiver that is down, after its pause, then all again', async () => {
    const made = await make();
    const takeOf = (device: number) => endpoint(made).take(`dev_${device}`, eventsFrom(1, 2), null);
    vi.useFakeTimers({ toFake: ['Date'] });
    receiver.answerTo = () => new Response(null, { status: 503 });
    for (const answer of await Promise.all(Array.from({ length: 8 }, (_, index) => takeOf(index))))
      laterThan(answer, 3);
    const before = received.length;
    laterThan(await takeOf(8), 3);
    expect(received).toHaveLength(before);
    vi.setSystemTime(Date.now() + 6_001);
    const released = Promise.withResolvers<undefined>();
    receiver.answerTo = () => released.promise.then(() => new Response());
    const probe = takeOf(0);
    await vi.waitFor(() => expect(received).toHaveLength(before + 1));
    laterThan(await takeOf(8), 9);
    released.resolve(undefined);
    expect(await probe).toEqual({ upTo: 2 });
    expect(await takeOf(8)).toEqual({ upTo: 2 });
  });

  it('ends for a receiver that answers 410 or fails for five days, until it agrees again', async () => {
    const made = await make();
    receiver.answerTo = () => new Response(null, { status: 410 });
    expect(await endpoint(made).take('dev_1', eventsFrom(1, 2), null)).toEqual({});
    expect((await ask('GET', `/${made.webhookId}`)).data).toMatchObject({ disabledBecause: 'receiver_gone' });
    receiver.answerTo = agree;
    expect((await ask('PATCH', `/${made.webhookId}`, {})).data).toMatchObject({ disabledBecause: null });
    expect(JSON.stringify(await call('GET', '/users/me/notices', { token: user.token }))).not.toContain('_disabled');
    expect(await endpoint(made).take('dev_1', eventsFrom(1, 2), null)).toEqual({ upTo: 2 });
    vi.useFakeTimers({ toFake: ['Date'] });
    receiver.answerTo = () => new Response(null, { status: 500 });
    const pauses: number[] = [];
    let isOver = false;
    for (let tries = 0; tries < 20 && !isOver; tries++) {
      const answer = await endpoint(made).take('dev_1', eventsFrom(3, 3), null);
      const { laterAtMs } = answer as { laterAtMs?: number };
      isOver = laterAtMs === undefined;
      if (laterAtMs === undefined) continue;
      pauses.push(laterAtMs);
      vi.setSystemTime(laterAtMs);
    }
    expect(isOver).toBe(true);
    expect(pauses.length).toBeGreaterThan(9);
    const inbox = env.USER_INBOX.getByName(`user-${user.userId}`);
    const { notices } = await inbox.read();
    expect(notices.at(-1)).toMatchObject({ cause: 'webhook_disabled', detail: { because: 'failed_for_days' } });
    const directory = env.FLEET_DIRECTORY.getByName(`user-${user.userId}`);
    expect(await directory.listWebhooks()).toMatchObject([{ disabledBecause: 'failed_for_days' }]);
  });

  it('saves deliveries that failed at once, and once in ten minutes if all succeed', async () => {
    const made = await make();
    const saved = () =>
      runInDurableObject(endpoint(made), (_, { storage }) =>
        storage.kv.get<{ messageId: string }[]>('deliveries')?.map(({ messageId }) => messageId.slice(-1)),
      );
    await endpoint(made).take('dev_1', eventsFrom(1, 2), null);
    expect(await saved()).toEqual(['1']);
    receiver.answerTo = () => new Response(null, { status: 503 });
    await endpoint(made).take('dev_1', eventsFrom(3, 3), null);
    expect(await saved()).toEqual(['1', '2', '3']);
    receiver.answerTo = agree;
    vi.useFakeTimers({ toFake: ['Date'] });
    for (const number of [4, 5]) {
      vi.setSystemTime(Date.now() + 590_000);
      await endpoint(made).take('dev_2', eventsFrom(number, number), null);
    }
    expect(await saved()).toEqual(['1', '2', '3', '4', '5']);
    vi.setSystemTime(Date.now() + 599_000);
    await endpoint(made).take('dev_2', eventsFrom(6, 6), null);
    expect((await saved())?.at(-1)).toBe('5');
  });

  it('holds up no device with the messages of another one', async () => {
    const made = await make();
    const released = Promise.withResolvers<undefined>();
    receiver.answerTo = ({ data }) =>
      data['deviceId'] === 'dev_1' ? released.promise.then(() => new Response()) : new Response();
    const slow = endpoint(made).take('dev_1', eventsFrom(1, 2), null);
    expect(await endpoint(made).take('dev_2', eventsFrom(1, 2), null)).toEqual({ upTo: 2 });
    released.resolve(undefined);
    expect(await slow).toEqual({ upTo: 2 });
  });

  it('answers within 8 s if the receiver is slow, and the next call has what became of it', async () => {
    const made = await make();
    const released = Promise.withResolvers<undefined>();
    receiver.answerTo = () => released.promise.then(() => new Response());
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await runInDurableObject(endpoint(made), async (instance) => {
      const first = instance.take('dev_1', eventsFrom(1, 1), null);
      await vi.advanceTimersByTimeAsync(8_000);
      laterThan(await first, 3);
      released.resolve(undefined);
      expect(await instance.take('dev_1', eventsFrom(1, 1), null)).toEqual({ upTo: 1 });
    });
    expect(received.map(({ type }) => type)).toEqual(['endpoint.challenge', 'device.online']);
  });

  it('is held to webhookDeliveriesPerSecond', async () => {
    const made = await make();
    await runInDurableObject(endpoint(made), async (_, state) => {
      vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
      const slow = new WebhookEndpoint(state, { ...env, LIMITS: 'webhookDeliveriesPerSecond=4' } as unknown as Env);
      const taken = slow.take('dev_1', eventsFrom(1, 10), null);
      const counts: number[] = [];
      for (const waitMs of [900, 1_000, 1_000]) {
        await vi.advanceTimersByTimeAsync(waitMs);
        counts.push(received.length - 1);
      }
      expect(await taken).toEqual({ upTo: 10 });
      expect(counts).toEqual([4, 8, 10]);
    });
  });

  it('has nothing for a webhook that was deleted', async () => {
    const made = await make();
    expect(await ask('DELETE', `/${made.webhookId}`)).toMatchObject({ data: { webhookId: made.webhookId } });
    expect(await endpoint(made).take('dev_1', eventsFrom(1, 1), null)).toBe('gone');
    expect(await ask('GET', `/${made.webhookId}`)).toMatchObject({ status: 404 });
    expect(received).toHaveLength(1);
  });
});

it('POST /webhooks/:webhookId/secret: the former one signs for a day, too', async () => {
  const made = await make();
  const { secret } = (await ask<Made>('POST', `/${made.webhookId}/secret`)).data;
  const verifies = (one: string) => {
    const { body: text, headers } = received.at(-1)!;
    return (headers['webhook-signature'] ?? '')
      .split(' ')
      .includes(
        new Webhook(one).sign(headers['webhook-id'] ?? '', new Date(Number(headers['webhook-timestamp']) * 1000), text),
      );
  };
  const test = await ask<{ signed: string; signature: string }>('POST', `/${made.webhookId}/test`);
  expect(test.data).toMatchObject({
    status: 200,
    problem: null,
    signature: received.at(-1)!.headers['webhook-signature'],
  });
  expect(test.data.signed.endsWith(received.at(-1)!.body)).toBe(true);
  expect([made.secret, secret].map(verifies)).toEqual([true, true]);
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 86_400_001 });
  await endpoint(made).take('dev_1', eventsFrom(1, 1), null);
  expect([made.secret, secret].map(verifies)).toEqual([false, true]);
});

it('tells devices of a webhook, and delivers again what a device still has', async () => {
  const made = await make();
  const device = await makeDevice(user);
  await reportConnected(device);
  const { deviceId } = device;
  await vi.waitFor(() => expect(received.at(-1)).toMatchObject({ type: 'device.online', data: { deviceId } }));
  const { id, data } = received.at(-1)!;
  const again = await ask('POST', `/${made.webhookId}/redeliver`, { deviceId, from: data['number'] });
  expect(again).toMatchObject({ data: { deviceId, from: data['number'] } });
  await vi.waitFor(() => expect(received.filter((message) => message.id === id)).toHaveLength(2));
});

it('after a 410 and a PATCH it gets what came meanwhile', async () => {
  const made = await make({ types: ['device.reported'] });
  const device = await makeDevice(user);
  const move = (position: string) => report(reportOf(device, position));
  const numbers = () =>
    received.filter(({ type }) => type === 'device.reported').map(({ data }) => Number(data['number']));
  receiver.answerTo = () => new Response(null, { status: 410 });
  await move('up');
  await vi.waitFor(async () =>
    expect((await ask('GET', `/${made.webhookId}`)).data).toMatchObject({ disabledBecause: 'receiver_gone' }),
  );
  await move('down');
  await move('middle');
  const [first = 0, ...others] = numbers();
  expect(others).toEqual([]);
  receiver.answerTo = agree;
  await ask('PATCH', `/${made.webhookId}`, {});
  await vi.waitFor(() => expect(numbers()).toEqual([first, first, first + 1, first + 2]));
});

it('an account that is disabled has no webhooks until it is enabled, and one that is deleted has none any more', async () => {
  const made = await make();
  const told = async () => {
    const { webhooks } = await env.FLEET_DIRECTORY.getByName(`user-${user.userId}`).ask('dev_00000000');
    return webhooks.map(({ webhookId }) => webhookId);
  };
  const states: string[][] = [await told()];
  for (const act of ['disable', 'enable', 'delete']) {
    expect(await operate(`/accounts/${act}`, { name: user.email })).toMatchObject({ status: 200 });
    states.push(await told());
  }
  expect(states).toEqual([[made.webhookId], [], [made.webhookId], []]);
  expect(await endpoint(made).take('dev_1', eventsFrom(1, 1), null)).toBe('gone');
});

it('keeps its secret while the sealing secret is replaced, and sends nothing unsigned after it is lost', async () => {
  const made = await make();
  await runInDurableObject(endpoint(made), async (_, state) => {
    const takeUnder = (SEALING_SECRETS: string, number: number) =>
      new WebhookEndpoint(state, { ...env, SEALING_SECRETS }).take('dev_1', eventsFrom(number, number), null);
    const next = 'the-next-sealing-secret-of-the-worker-tests';
    expect(await takeUnder(`${next},${env.SEALING_SECRETS}`, 1)).toEqual({ upTo: 1 });
    expect(await takeUnder(next, 2)).toEqual({ upTo: 2 });
    laterThan(await takeUnder('another-sealing-secret-of-the-worker-tests', 3), 3);
  });
  expect(received).toHaveLength(3);
  const { body: text, headers } = received.at(-1)!;
  expect(new Webhook(made.secret).verify(text, headers)).toMatchObject({ data: { number: 2 } });
});
