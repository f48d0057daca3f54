// Contract section 6, the WebSocket relay: replies, rights, limits and what is pushed. Every frame is held against the
// served AsyncAPI document.
import { describe, expect, it, vi } from 'vitest';
import type { Activation } from '../../rig/clients/accounts.ts';
import { ask, bearer, connectDevice, newDevice, openRelay, signUp } from '../../rig/clients/conformance-client.ts';
import type { Frame } from '../../rig/clients/relay-client.ts';
import { dataOf } from '../../rig/clients/api.ts';

const owner = await signUp();
const device = await newDevice(owner);
const other = await newDevice(owner);

const authOf = ({ mqtt: { username, password } }: Activation): Frame => ({ action: 'auth', username, password });
const subscribe = (topic: string): Frame => ({ action: 'subscribe', topic });
const everything = ({ topics }: Activation) => topics.status.replace(/status$/, '#');
const refusal = (action: string, code: number, message: string) => ({ action, code, message });

describe('auth and subscribe', () => {
  it('are replied to, in their order, also without waiting', async () => {
    const relay = await openRelay();
    relay.send(authOf(device));
    relay.send(subscribe(device.topics.status));
    expect(await relay.nextReply()).toEqual({ action: 'auth', code: 200, message: 'success' });
    const { status: topic } = device.topics;
    expect(await relay.nextReply()).toEqual({ action: 'subscribe', topic, code: 200, message: 'success' });
  });

  it('refuse wrong credentials with 401, and the third time close with 1008', async () => {
    const relay = await openRelay();
    const { username } = device.mqtt;
    const wrong = { action: 'auth', username, password: 'tk_wrong' };
    expect(await relay.ask(wrong)).toEqual(refusal('auth', 401, 'invalid_password'));
    expect(await relay.ask({ ...wrong, username: 'x&dev_00000000' })).toEqual(refusal('auth', 401, 'invalid_password'));
    expect(await relay.ask({ ...wrong, password: device.deviceSecret })).toMatchObject({ code: 401 });
    expect(await relay.untilClosed()).toMatchObject({ code: 1008 });
  });

  it('want the auth first', async () => {
    const relay = await openRelay();
    expect(await relay.ask(subscribe(device.topics.status))).toMatchObject({ action: 'subscribe', code: 401 });
  });

  it("refuse other devices' topics and filters that leave the device", async () => {
    const relay = await openRelay();
    await relay.ask(authOf(device));
    const [, , productKey = '', deviceId = ''] = device.topics.status.split('/');
    const foreign = [
      other.topics.status,
      '#',
      '+/#',
      '/sys/#',
      `/sys/${productKey}/+/status`,
      `/sys/+/${deviceId}/status`,
      `/sys/${productKey}/${deviceId}`,
      `/sys/${productKey}/${deviceId}x/status`,
      `$share/group${device.topics.status}`,
    ];
    for (const topic of foreign) {
      expect(await relay.ask(subscribe(topic)), topic).toMatchObject({ action: 'subscribe', topic, code: 403 });
    }
    for (const topic of [everything(device), device.topics.status.replace('status', '+'), device.topics.propertySet]) {
      expect(await relay.ask(subscribe(topic)), topic).toMatchObject({ code: 200 });
    }
  });

  it("let a signed-in user follow every device that is theirs on one socket, and nobody else's", async () => {
    const relay = await openRelay();
    expect(await relay.ask({ action: 'auth', token: owner.token })).toMatchObject({ action: 'auth', code: 200 });
    for (const own of [device, other]) expect(await relay.ask(subscribe(everything(own)))).toMatchObject({ code: 200 });
    const stranger = await openRelay();
    await stranger.ask({ action: 'auth', token: (await signUp()).token });
    expect(await stranger.ask(subscribe(everything(device)))).toMatchObject({ code: 403, message: 'forbidden' });
    expect(await stranger.ask({ action: 'auth', token: 'x.y.z' })).toEqual(refusal('auth', 401, 'unauthorized'));
  });

  it('take at most twenty subscriptions on a socket with device credentials', async () => {
    const relay = await openRelay();
    await relay.ask(authOf(device));
    const topicOf = (index: number) => `${everything(device).slice(0, -1)}thing/${index}`;
    for (let index = 0; index < 20; index += 1) {
      expect(await relay.ask(subscribe(topicOf(index)))).toMatchObject({ code: 200 });
    }
    expect(await relay.ask(subscribe(topicOf(20)))).toMatchObject({ code: 400 });
    expect(await relay.ask({ action: 'unsubscribe', topic: topicOf(0) })).toMatchObject({ code: 200 });
    expect(await relay.ask(subscribe(topicOf(20)))).toMatchObject({ code: 200 });
  });
});

describe('pushes', () => {
  it('are topic and payload, once however many filters match, and end with unsubscribe', async () => {
    const relay = await openRelay();
    await relay.ask(authOf(device));
    const { propertyPost } = device.topics;
    for (const topic of [propertyPost, everything(device)]) await relay.ask(subscribe(topic));
    const client = await connectDevice(device);
    const reports = [1, 2, 3].map((angle) => ({ params: { angle } }));
    for (const body of reports) await client.tryPublish(propertyPost, body);
    const pushes: Frame[] = [];
    while (pushes.length < 3) pushes.push(...[await relay.nextPush()].filter(({ topic }) => topic === propertyPost));
    expect(pushes).toEqual(reports.map((payload) => ({ topic: propertyPost, payload })));
    await relay.ask({ action: 'unsubscribe', topic: everything(device) });
    await relay.ask({ action: 'unsubscribe', topic: propertyPost });
    await relay.ask(subscribe(device.topics.status));
    relay.pushes.length = 0;
    await client.tryPublish(propertyPost, { params: { angle: 4 } });
    await client.tryPublish(device.topics.status, { status: 'online' });
    expect(await relay.nextPush()).toMatchObject({ topic: device.topics.status });
  });

  it('hold text where the payload is no JSON', async () => {
    const relay = await openRelay();
    await relay.ask(authOf(other));
    await relay.ask(subscribe(other.topics.propertyPost));
    const client = await connectDevice(other);
    await client.client.publishAsync(other.topics.propertyPost, 'not { JSON', { qos: 1 });
    expect(await relay.nextPush()).toEqual({ topic: other.topics.propertyPost, payload: 'not { JSON' });
  });

  it('carry commands too', async () => {
    const relay = await openRelay();
    await relay.ask({ action: 'auth', token: owner.token });
    await relay.ask(subscribe(device.topics.propertySet));
    const command = { headers: bearer(owner.token), body: { action: 'trigger' } };
    expect(await ask('POST', `/devices/${device.deviceId}/control`, command)).toMatchObject({ code: 200 });
    expect(await relay.nextPush()).toMatchObject({
      topic: device.topics.propertySet,
      payload: { method: 'thing.service.property.set', params: { action: 'trigger' } },
    });
  });
});

describe('a relay session', () => {
  it("never touches the device's session or presence", async () => {
    const own = await newDevice(owner);
    const client = await connectDevice(own);
    const status = () => dataOf(owner.api.devices[':deviceId'].status.$get({ param: { deviceId: own.deviceId } }));
    await vi.waitFor(async () => expect(await status()).toMatchObject({ online: true }));
    const relay = await openRelay();
    await relay.ask(authOf(own));
    await relay.ask(subscribe(everything(own)));
    relay.close();
    await relay.untilClosed();
    expect(client.isClosed).toBe(false);
    expect(await status()).toMatchObject({ online: true });
  });

  it('needs no sub-protocol and no particular origin', async () => {
    const relay = await openRelay({ Origin: 'https://elsewhere.example' });
    expect(await relay.ask({ action: 'ping' })).toEqual({ action: 'pong' });
  });

  it('answers what cannot be read, and stays', async () => {
    const relay = await openRelay();
    for (const frame of ['', 'hello', '[]', 'null', '{}', '{"action":7}', Buffer.from([1, 2, 3])]) {
      expect(await relay.ask(frame), String(frame)).toEqual(refusal('error', 400, 'invalid_request'));
    }
    expect(await relay.ask({ action: 'subscribe' })).toMatchObject({ action: 'subscribe', code: 400 });
    expect(await relay.ask({ action: 'auth' })).toMatchObject({ action: 'auth', code: 400 });
    expect(await relay.ask({ action: 'ping' })).toEqual({ action: 'pong' });
  });

  it('is closed with 1009 for a frame above 16 KiB', async () => {
    const relay = await openRelay();
    relay.send({ action: 'subscribe', topic: 'x'.repeat(16 * 1024) });
    expect(await relay.untilClosed()).toMatchObject({ code: 1009 });
  });

  it('is closed with 1008 when it does not authenticate within ten seconds', async () => {
    const relay = await openRelay();
    expect(await relay.untilClosed(15_000)).toMatchObject({ code: 1008 });
  });
});
