// The client package against the whole service, with a virtual switch as the device. Sessions renew themselves, a relay
// comes back, and commands are followed to their end.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { WebSocket as WsSocket } from 'ws';
import {
  ApiError,
  createClient,
  dataOf,
  followDevice,
  NoAnswerError,
  previewSchedule,
  putSchedule,
  Relay,
  runCommand,
  runSchedule,
  Session,
  type Command,
  type DeviceState,
  type RelayMessage,
  type Tokens,
} from '../../client/src/index.ts';
import { signAccessToken } from '../../src/crypto/tokens.ts';
import type { RecordNotice } from '../../src/protocol/relay.ts';
import { createVirtualDevice, type VirtualDevice } from '../../dev/virtual-device.ts';
import type { Activation } from '../../rig/clients/accounts.ts';
import { eventually } from '../../rig/changes.ts';
import { TcpProxy } from '../../rig/clients/tcp-proxy.ts';
import { WholeService } from '../../rig/services/whole-service.ts';
import { jwtSecrets } from '../../rig/worker/worker-rig.ts';

/** Shorter than the service may be told to make them. */
const tokenSeconds = 3;

let service: WholeService;
let device: VirtualDevice;
let activation: Activation;
let proxy: TcpProxy;
const relays: Relay[] = [];

beforeAll(async () => {
  service = await WholeService.start({});
  proxy = await TcpProxy.start(service.rig.port);
  device = createVirtualDevice({ apiUrl: service.rig.url, productKey: service.rig.productKey, serial: 'CLIENT-1' });
  activation = await device.start();
});
afterAll(async () => {
  await device.stop();
  await proxy.stop();
  await service.stop();
});
afterEach(() => {
  for (const relay of relays.splice(0)) relay.close();
  proxy.heal(true);
});

function logIn(options: Parameters<typeof Session.logIn>[2] = {}, url = service.rig.url): Promise<Session> {
  const { email, password } = service.rig.owner;
  return Session.logIn(url, { username: email, password }, options);
}

/** With a token that ends soon. */
async function logInShortly(options: Parameters<typeof Session.logIn>[2] = {}): Promise<Session> {
  const { refreshToken } = (await logIn()).tokens;
  const [kid = '', secret = ''] = jwtSecrets.split(':');
  const config = { signingKeys: [{ kid, secret }], accessTokenSeconds: tokenSeconds + 1 };
  const token = await signAccessToken(config, service.rig.owner.user.userId, 'a-session');
  return Session.resume(
    service.rig.url,
    { token, refreshToken, expiresAtMs: Date.now() + tokenSeconds * 1000 },
    options,
  );
}

function openRelay(session: Session, options: Parameters<Session['openRelay']>[0] = {}): Relay {
  const relay = session.openRelay({ backOff: { firstMs: 50, maxMs: 200 }, ...options });
  relays.push(relay);
  return relay;
}

const topic = () => activation.topics.status.replace(/status$/, '#');

it('renews the token in time, once for all calls that wait for it, and resumes with what was kept', async () => {
  const kept: Tokens[] = [];
  const session = await logInShortly({ onTokens: (tokens) => kept.push(tokens) });
  await sleep(tokenSeconds * 1000);
  const calls = Array.from({ length: 8 }, () => dataOf(session.api.users.me.$get()));
  for (const me of await Promise.all(calls)) expect(me.email).toBe(service.rig.owner.email);
  expect(kept).toHaveLength(1);
  const resumed = Session.resume(service.rig.url, kept[0]!);
  expect(await dataOf(resumed.api.users.me.$get())).toMatchObject({ email: service.rig.owner.email });
});

it('renews a token that the service refuses before its time, and says when the session has ended', async () => {
  const ended: ApiError[] = [];
  const { tokens } = await logIn();
  const damaged = { ...tokens, token: `${tokens.token}x`, expiresAtMs: Date.now() + 3_600_000 };
  const session = Session.resume(service.rig.url, damaged, { onEnded: (error) => ended.push(error) });
  expect(await dataOf(session.api.users.me.$get())).toMatchObject({ email: service.rig.owner.email });
  await session.logOut();
  await expect(dataOf(session.api.users.me.$get())).rejects.toMatchObject({ code: 401, reason: 'unauthorized' });
  const late = Session.resume(
    service.rig.url,
    { ...session.tokens, expiresAtMs: 0 },
    { onEnded: (error) => ended.push(error) },
  );
  await expect(dataOf(late.api.users.me.$get())).rejects.toBeInstanceOf(ApiError);
  expect(ended).toHaveLength(1);
});

it('does not take a wrong password for a token that has ended', async () => {
  const kept: Tokens[] = [];
  const session = await logIn({ onTokens: (tokens) => kept.push(tokens) });
  const json = { oldPassword: 'not the password', newPassword: 'another password' };
  await expect(dataOf(session.api.users.password.$put({ json }))).rejects.toMatchObject({ reason: 'invalid_password' });
  expect(kept).toHaveLength(1);
});

it('says that no answer came, and whether it waited for one', async () => {
  proxy.cut('stall');
  const session = Session.resume(proxy.url, (await logIn()).tokens, { timeoutMs: 200 });
  const call = dataOf(session.api.users.me.$get());
  await expect(call).rejects.toBeInstanceOf(NoAnswerError);
  await expect(call).rejects.toMatchObject({ isTimeout: true, message: 'no answer within 200 ms' });
  proxy.cut('reset');
  await expect(dataOf(session.api.users.me.$get())).rejects.toMatchObject({ isTimeout: false });
});

it('lets an image take longer, by its size', async () => {
  proxy.cut('stall');
  const session = Session.resume(proxy.url, (await logIn()).tokens, { timeoutMs: 200 });
  const image = session.api.products[':productKey'].firmware[':version'].image;
  const body = new Blob([new Uint8Array(3_200)]);
  const call = image.$put({ param: { productKey: 'switch', version: '1.2.0' } }, { init: { body } });
  await expect(call).rejects.toMatchObject({ isTimeout: true, message: 'no answer within 300 ms' });
});

it('lets a waiting call wait for so long and 5 s more', async () => {
  const session = Session.resume(service.rig.url, (await logIn()).tokens, { timeoutMs: 1 });
  const call = session.api.devices[':deviceId'].control.$post({
    param: { deviceId: activation.deviceId },
    query: { wait: '2' },
    header: {},
    json: { action: 'toggle' },
  });
  expect(await dataOf(call)).toMatchObject({ state: 'acknowledged' });
});

it('says at once where there is no WebSocket', async () => {
  const session = await logIn();
  vi.stubGlobal('WebSocket', undefined);
  try {
    expect(() => session.openRelay()).toThrow('there is no global WebSocket');
  } finally {
    vi.unstubAllGlobals();
  }
});

it.each([
  ['the global WebSocket', undefined],
  ['that of the package ws', WsSocket],
])('brings messages with %s, and the state first', async (name, WebSocket) => {
  const session = await logIn();
  const relay = openRelay(session, WebSocket && { WebSocket });
  const states: DeviceState[] = [];
  const messages: RelayMessage[] = [];
  const changes: RecordNotice['change'][] = [];
  const identity = { productKey: service.rig.productKey, deviceId: activation.deviceId };
  const subscription = followDevice(session.api, relay, identity, {
    onState: (state) => states.push(state),
    onMessage: (message) => messages.push(message),
    onRecord: (change) => changes.push(change),
    onError: (error) => expect.unreachable(String(error)),
  });
  await subscription.active;
  await eventually('the state', () => states.length === 1);
  expect(states[0]).toMatchObject({ status: { deviceId: activation.deviceId, online: true } });
  await runCommand(session.api, activation.deviceId, { action: 'toggle', position: 'up' });
  await eventually('the report', () => messages.some((one) => one.topic === activation.topics.propertyPost));
  const param = { deviceId: activation.deviceId };
  await dataOf(session.api.devices[':deviceId'].$patch({ param, json: { name: `Client with ${name}` } }));
  await eventually('the new name', () => changes.length > 0);
  expect(changes).toEqual(['record_changed']);
  subscription.end();
});

it('follows a command to the reply, or to the report that shows the result', async () => {
  const { api } = await logIn();
  const { deviceId } = activation;
  const states: string[] = [];
  const toggle = { action: 'toggle', position: 'down' } as const;
  expect(
    await runCommand(api, deviceId, toggle, { until: 'confirmed', onCommand: ({ state }) => states.push(state) }),
  ).toMatchObject({
    state: 'confirmed',
  });
  expect(states.at(-1)).toBe('confirmed');
  const wrong = runCommand(api, deviceId, { switch: true, angle: 500 });
  await expect(wrong).rejects.toMatchObject({ reason: 'invalid_control_params' });
  const lost = await service.rig.activate('CLIENT-AWAY');
  expect(await runCommand(api, lost.deviceId, toggle)).toMatchObject({ state: 'expired' });
});

it('follows a command until its witness saw it, or did not', async () => {
  const { api } = await logIn();
  const { deviceId } = activation;
  const pulse = { action: 'pulse' } as const;
  const settings = { expect: 'pressed', by: { checkIn: true }, withinSeconds: 1, then: 'nothing' } as const;
  const { witness } = api.devices[':deviceId'];
  const { checkInUrl = '' } = await dataOf(witness.$put({ param: { deviceId }, json: settings }));
  const onCommand = ({ state, witness: seen }: Command) => {
    if (state === 'acknowledged' && seen?.outcome === 'pending') void fetch(checkInUrl, { method: 'POST' });
  };
  const seen = await runCommand(api, deviceId, pulse, { until: 'witnessed', onCommand });
  expect(seen).toMatchObject({ state: 'acknowledged', witness: { outcome: 'witnessed', by: 'check_in' } });
  const missed = await runCommand(api, deviceId, pulse, { until: 'witnessed' });
  expect(missed).toMatchObject({ state: 'acknowledged', witness: { outcome: 'not_witnessed', reason: 'not_seen' } });
  await dataOf(witness.$delete({ param: { deviceId } }));
  expect(await runCommand(api, deviceId, pulse, { until: 'witnessed' })).toMatchObject({ witness: null });
});

it('sends a command once although its answer was lost', async () => {
  const { api } = await logIn();
  const lossy = await logIn({
    fetch: (() => {
      let losses = 0;
      return async (request) => {
        const isControl = request.url.includes('/control');
        const response = await fetch(request);
        if (!isControl || losses > 0) return response;
        losses += 1;
        throw new TypeError('the connection was lost');
      };
    })(),
  });
  const count = async () => {
    const call = api.devices[':deviceId'].commands.$get({ param: { deviceId: activation.deviceId }, query: {} });
    return (await dataOf(call)).total;
  };
  const before = await count();
  await runCommand(lossy.api, activation.deviceId, { action: 'toggle', position: 'up' });
  expect(await count()).toBe(before + 1);
});

it('comes back after its connection was cut or stalled, subscribes again and says so', async () => {
  const session = await logIn({}, proxy.url);
  const relay = openRelay(session);
  const active: boolean[] = [];
  const messages: RelayMessage[] = [];
  const subscription = relay.subscribe(topic(), {
    onMessage: (message) => messages.push(message),
    onActive: (isAgain) => active.push(isAgain),
  });
  await subscription.active;
  proxy.cut('reset');
  await eventually('the loss', () => relay.state !== 'open');
  proxy.heal(true);
  await eventually('the relay again', () => active.length === 2);
  expect(active).toEqual([false, true]);
  messages.length = 0;
  await runCommand(session.api, activation.deviceId, { action: 'toggle', position: 'middle' });
  await eventually('messages again', () => messages.length > 0);
});

it('brings everything of the user on one subscription, the present state first, again after a loss', async () => {
  const session = Session.resume(proxy.url, (await logIn()).tokens);
  const relay = openRelay(session);
  const messages: RelayMessage[] = [];
  const onMessage = (message: RelayMessage) => messages.push(message);
  await relay.subscribe('/sys/+/+/#', { onMessage, snapshot: true }).active;
  const { status } = activation.topics;
  const said = () => messages.find(({ topic: one }) => one === status)?.payload;
  expect(said()).toMatchObject({ status: 'online' });
  messages.length = 0;
  proxy.cut('reset');
  await eventually('the loss', () => relay.state !== 'open');
  proxy.heal(true);
  await eventually('the state again', () => said() !== undefined);
  messages.length = 0;
  await runCommand(session.api, activation.deviceId, { action: 'toggle', position: 'down' });
  await eventually('the report', () => messages.some((one) => one.topic === activation.topics.propertyPost));
});

it('stays on one connection past the end of its first token', async () => {
  const states: string[] = [];
  const session = await logInShortly();
  const relay = openRelay(session, { onState: (state) => states.push(state) });
  const messages: RelayMessage[] = [];
  await relay.subscribe(topic(), { onMessage: (message) => messages.push(message) }).active;
  await sleep(tokenSeconds * 2_000);
  await runCommand(session.api, activation.deviceId, { action: 'toggle', position: 'up' });
  await eventually('a message', () => messages.length > 0);
  expect(states).toEqual(['connecting', 'open']);
});

it('ends where the relay will never take it, with the reason', async () => {
  const { username } = activation.mqtt;
  const relay = new Relay(service.rig.url, { login: { username, password: 'tk_wrong' } });
  relays.push(relay);
  const { active } = relay.subscribe(topic(), { onMessage: () => undefined });
  await expect(active).rejects.toMatchObject({ name: 'RelayError', code: 401, message: 'invalid_password' });
  expect(relay.state).toBe('ended');
});

it('follows with an API key until that is deleted', async () => {
  const session = await logIn();
  const key = await dataOf(session.api.users['api-keys'].$post({ json: { description: 'hub', scopes: ['read'] } }));
  const credentials = { keyId: key.keyId, apiKey: key.apiKey };
  const { list } = await dataOf(createClient(service.rig.url, { credentials }).devices.$get({ query: {} }));
  expect(list.map(({ deviceId }) => deviceId)).toContain(activation.deviceId);
  const relay = new Relay(service.rig.url, { login: credentials });
  relays.push(relay);
  const messages: RelayMessage[] = [];
  const refusals: unknown[] = [];
  const listener = {
    onMessage: (message: RelayMessage) => messages.push(message),
    onRefused: (e: unknown) => refusals.push(e),
  };
  await relay.subscribe('/sys/+/+/#', { ...listener, snapshot: true }).active;
  expect(messages.map((one) => one.topic)).toContain(activation.topics.status);
  await dataOf(session.api.users['api-keys'][':keyId'].$delete({ param: { keyId: key.keyId } }));
  await eventually('the end', () => relay.state === 'ended');
  expect(refusals).toMatchObject([{ name: 'RelayError', code: 1008, message: 'API key deleted' }]);
});

it('refuses a foreign topic alone, and goes on', async () => {
  const session = await logIn();
  const relay = openRelay(session);
  const foreign = relay.subscribe('/sys/foreign/dev_00000000/#', { onMessage: () => undefined });
  await expect(foreign.active).rejects.toMatchObject({ code: 403, message: 'forbidden' });
  await relay.subscribe(topic(), { onMessage: () => undefined }).active;
});

it('previews and makes schedules, and runs one to its outcome', async () => {
  const { api } = await logIn();
  const { deviceId } = activation;
  const body = { command: { action: 'toggle', position: 'middle' }, at: '02:30', zone: 'Europe/Berlin' } as const;
  const [first] = await previewSchedule(api, deviceId, { ...body, from: '2027-03-28' });
  expect(first).toMatchObject({
    dueAt: '2027-03-28T01:30:00.000Z',
    why: expect.stringContaining('does not exist') as string,
  });
  const { scheduleId } = await putSchedule(api, deviceId, body);
  expect(await putSchedule(api, deviceId, { ...body, name: 'Night' }, scheduleId)).toMatchObject({
    scheduleId,
    name: 'Night',
  });
  expect(await runSchedule(api, deviceId, scheduleId)).toMatchObject({
    scheduleId,
    name: 'Night',
    outcome: 'confirmed',
  });
});
