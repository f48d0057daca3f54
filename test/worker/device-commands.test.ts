// Commands over HTTP and in the device's object: what is answered, what reaches the device, how far each has come.
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { topicActions } from '../../src/protocol/mqtt.ts';
import { bringUp, TestBridge, type Said } from '../rig/workerd/bridge.ts';
import { call, createUser, type Answer, type TestUser } from '../rig/workerd/client.ts';
import { sessionOf } from '../rig/workerd/provision.ts';
import { openSocket } from '../rig/workerd/socket.ts';

const { propertyPost, propertySet, propertySetReply, status } = topicActions;

type Device = { productKey: string; deviceId: string };
type Receipt = {
  message: string;
  commandId: string;
  deviceOnline: boolean;
  expiresAt: string;
  state?: string;
  elapsedMs?: number;
};
type Command = {
  commandId: string;
  state: string;
  reason: string | null;
  replyCode: number | null;
  params: object;
  kept: boolean;
  steps: Record<'accepted' | 'published' | 'brokerAcknowledged' | 'deviceAcknowledged' | 'confirmed', number | null>;
};
type Message = { id: string; method: string; params: object; time: number };

let owner: TestUser;
let bridge: TestBridge;
beforeAll(async () => {
  owner = await createUser();
});
beforeEach(async () => {
  bridge = await TestBridge.dialIn();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await bridge.close();
});

let count = 0;
async function activate(controlMode = 'toggle'): Promise<Device> {
  const productKey = `commands-${++count}`;
  await call('POST', '/products', { token: owner.token, body: { productKey, name: 'Switch', controlMode } });
  const { data } = await call<{ deviceId: string }>('POST', '/devices/activate', {
    body: { productKey, deviceSN: 'SN' },
  });
  return { productKey, deviceId: data.deviceId };
}
async function activateOnline(): Promise<Device> {
  const device = await activate();
  await connect(device);
  return device;
}

const connect = ({ deviceId }: Device) =>
  sessionOf(deviceId).reportConnection({ kind: 'connected', sessionStartedAtMs: Date.now() });
const disconnect = ({ deviceId }: Device) =>
  sessionOf(deviceId).reportConnection({
    kind: 'disconnected',
    sessionStartedAtMs: null,
    endedAtMs: Date.now(),
    reason: 'tcp_closed',
  });
const control = ({ deviceId }: Device, body: unknown, query = '', headers = {}): Promise<Answer<Receipt>> =>
  call('POST', `/devices/${deviceId}/control${query}`, { token: owner.token, body, headers });
const read = async ({ deviceId }: Device, commandId: string) =>
  (await call<Command>('GET', `/devices/${deviceId}/commands/${commandId}`, { token: owner.token })).data;
const listOf = async ({ deviceId }: Device, query = '') =>
  (
    await call<{ list: Command[]; total: number }>('GET', `/devices/${deviceId}/commands${query}`, {
      token: owner.token,
    })
  ).data;
const cancel = ({ deviceId }: Device, commandId: string): Promise<Answer<Command>> =>
  call('DELETE', `/devices/${deviceId}/commands/${commandId}`, { token: owner.token });
const nextCommand = async (device: Device) => (await bridge.nextFor(device, propertySet)).body as Message;
const unheard = (device: Device) => bridge.waitingFor(device, propertySet) as Message[];
const reply = (id: string, code?: number): Said => ({ action: propertyPost, payload: replyOf(id, code) });
const replyOf = (id: string, code?: number) => ({ method: 'thing.service.property.set_reply', id, code });
const report = (properties: object): Said => ({ action: propertyPost, payload: { params: properties } });
const ring = ({ deviceId }: Device) => runDurableObjectAlarm(sessionOf(deviceId));
const sleep = ({ deviceId }: Device) => evictDurableObject(sessionOf(deviceId));

function setClock(atMs: number): void {
  vi.spyOn(Date, 'now').mockReturnValue(atMs);
}

const up = { action: 'toggle', position: 'up' };
const down = { action: 'toggle', position: 'down' };

describe('POST /devices/:deviceId/control', () => {
  it('sends exactly the members received, once, with an id of its own, and answers when the broker has it', async () => {
    const device = await activateOnline();
    const { status: code, data } = await control(device, { action: 'pulse', duration: 500, note: 'x' });
    expect(code).toBe(200);
    expect(data).toEqual({
      message: 'command_sent',
      commandId: expect.stringMatching(/^[0-9a-z]{16}$/) as string,
      deviceOnline: true,
      expiresAt: expect.stringMatching(/Z$/) as string,
    });
    const frame = await bridge.nextFor(device, propertySet);
    expect(frame).toMatchObject({ topic: `/sys/${device.productKey}/${device.deviceId}/thing/service/property/set` });
    expect(frame.messageExpirySeconds).toBe(10);
    expect(frame.body).toEqual({
      method: 'thing.service.property.set',
      id: data.commandId,
      params: { action: 'pulse', duration: 500 },
      time: expect.any(Number) as number,
    });
    expect(unheard(device)).toEqual([]);
  });

  it('says when the device is not known to be there', async () => {
    const device = await activate();
    expect((await control(device, up)).data).toMatchObject({ message: 'command_sent', deviceOnline: false });
  });

  it.each([
    [{}, 400, 'no_control_params'],
    [{ power: 1 }, 400, 'no_control_params'],
    [{ action: 'open' }, 400, 'invalid_control_params'],
    [{ action: 'toggle', angle: 5 }, 400, 'invalid_control_params'],
    [{ angle: 181 }, 400, 'invalid_control_params'],
  ])('answers %j with %i %s and sends nothing', async (body, code, message) => {
    const device = await activateOnline();
    expect(await control(device, body)).toMatchObject({ status: code, message, data: null });
    expect((await listOf(device)).total).toBe(0);
    expect(unheard(device)).toEqual([]);
  });

  it.each(['?wait=0', '?wait=11', '?wait=1.5', '?wait=x', '?wait=', '?ttl=0', '?ttl=86401', '?ttl=-1', '?ttl=1h'])(
    'refuses %s',
    async (query) => {
      const device = await activateOnline();
      const { status: code, message } = await control(device, up, query);
      expect(code).toBe(400);
      expect(message).toMatch(/^invalid_request: (wait|ttl): /);
    },
  );

  it.each([
    { action: 'pulse' },
    { action: 'trigger' },
    { action: 'toggle' },
    { switch: true },
    { switch: true, angle: 5 },
  ])('refuses to keep the momentary %j', async (body) => {
    const device = await activateOnline();
    const { status: code, message } = await control(device, body, '?ttl=60');
    expect(code).toBe(400);
    expect(message).toMatch(/^invalid_request: ttl: /);
    expect(unheard(device)).toEqual([]);
  });

  it('is refused for a product that only reports, for others and for nobody', async () => {
    const device = await activate('readonly');
    expect(await control(device, up)).toMatchObject({ status: 403, message: 'forbidden' });
    const stranger = await createUser();
    const path = `/devices/${device.deviceId}/control`;
    expect((await call('POST', path, { token: stranger.token, body: up })).status).toBe(403);
    expect((await call('POST', path, { body: up })).status).toBe(401);
    expect((await call('POST', '/devices/dev_00000000/control', { token: owner.token, body: up })).status).toBe(404);
  });

  it('answers broker_unavailable when no bridge takes it in time, and never delivers it later', async () => {
    const device = await activateOnline();
    await bridge.close();
    const { status: code, message } = await control(device, up);
    expect({ code, message }).toEqual({ code: 500, message: 'broker_unavailable' });
    const [command] = (await listOf(device)).list;
    expect(command).toMatchObject({ state: 'undelivered', reason: 'broker_unavailable', kept: false });
    bridge = await TestBridge.dialIn();
    await disconnect(device);
    await connect(device);
    await ring(device);
    expect(unheard(device)).toEqual([]);
  });

  it('shows the command to relay subscribers of the property-set topic', async () => {
    const device = await activateOnline();
    const topic = `/sys/${device.productKey}/${device.deviceId}/thing/service/property/set`;
    const relay = await openSocket('/mqtt');
    await relay.ask({ action: 'auth', token: owner.token });
    await relay.ask({ action: 'subscribe', topic });
    await control(device, { angle: 90 });
    expect(await relay.next()).toEqual({ topic, payload: await nextCommand(device) });
    relay.close();
  });
});

describe('the life of a command', () => {
  it('is told step by step, with times in their order', async () => {
    const device = await activateOnline();
    const { commandId } = (await control(device, up)).data;
    expect(await read(device, commandId)).toMatchObject({ state: 'sent', params: up, kept: false });
    await bringUp(device, reply(commandId, 200));
    expect(await read(device, commandId)).toMatchObject({ state: 'acknowledged', replyCode: 200 });
    await bringUp(device, report({ position: 'up' }));
    const { state, steps } = await read(device, commandId);
    expect(state).toBe('confirmed');
    const { accepted, published, brokerAcknowledged, deviceAcknowledged, confirmed } = steps;
    const times = [accepted, published, brokerAcknowledged, deviceAcknowledged, confirmed];
    expect(times.every((time) => Number.isInteger(time))).toBe(true);
    expect(times.toSorted((one, other) => one! - other!)).toEqual(times);
  });

  it('takes replies on both topics, with the id as text or as it was sent', async () => {
    const device = await activateOnline();
    const first = (await control(device, up)).data.commandId;
    await bringUp(device, { action: propertySetReply, payload: { id: first, code: 0 } });
    expect(await read(device, first)).toMatchObject({ state: 'acknowledged', replyCode: 0 });
    const second = (await control(device, down)).data.commandId;
    await bringUp(device, reply('0123456789abcdef', 500), { action: propertyPost, payload: replyOf(second) });
    expect(await read(device, second)).toMatchObject({ state: 'acknowledged', replyCode: null });
  });

  it('fails with the code of the device', async () => {
    const device = await activateOnline();
    const { commandId } = (await control(device, up)).data;
    await bringUp(device, reply(commandId, 500), report({ position: 'up' }));
    expect(await read(device, commandId)).toMatchObject({
      state: 'failed',
      replyCode: 500,
      reason: 'device replied 500',
    });
  });

  it('is undelivered where the broker knows of no subscriber', async () => {
    const device = await activateOnline();
    bridge.hasSubscribers = false;
    const { commandId } = (await control(device, up)).data;
    expect(await read(device, commandId)).toMatchObject({ state: 'undelivered', reason: 'no_subscriber' });
  });

  it('expires after ten seconds; a reply that comes later is still the truth', async () => {
    const device = await activateOnline();
    const { commandId } = (await control(device, up)).data;
    setClock(Date.now() + 10_001);
    expect(await read(device, commandId)).toMatchObject({ state: 'expired', reason: 'no_reply' });
    await bringUp(device, reply(commandId, 200));
    expect(await read(device, commandId)).toMatchObject({ state: 'acknowledged' });
  });

  it('goes on over sleep', async () => {
    const device = await activateOnline();
    const { commandId } = (await control(device, up)).data;
    await sleep(device);
    await bringUp(device, reply(commandId, 200));
    await sleep(device);
    await bringUp(device, report({ position: 'up' }));
    await sleep(device);
    expect(await read(device, commandId)).toMatchObject({ state: 'confirmed' });
  });

  it('is kept for the last hundred, newest first, in pages', async () => {
    const device = await activateOnline();
    const ids: string[] = [];
    for (let number = 0; number < 103; number++) ids.push((await control(device, { angle: number })).data.commandId);
    const page = await listOf(device, '?size=100');
    expect(page.total).toBe(100);
    expect(page.list.map(({ commandId }) => commandId)).toEqual(ids.toReversed().slice(0, 100));
    expect((await listOf(device, '?size=2&page=2')).list.map(({ commandId }) => commandId)).toEqual([
      ids[100],
      ids[99],
    ]);
    const gone = await call('GET', `/devices/${device.deviceId}/commands/${ids[0]}`, { token: owner.token });
    expect(gone).toMatchObject({ status: 404, message: 'not_found' });
  });

  it('costs a row a step', async () => {
    const device = await activateOnline();
    const rows = () =>
      runInDurableObject(
        sessionOf(device.deviceId),
        (_, { storage }) => storage.sql.exec<{ n: number }>('SELECT total_changes() AS n').one().n,
      );
    await expect.poll(async () => (await rows()) === (await rows())).toBe(true);
    await bridge.nextFor(device, status);
    const before = await rows();
    const { commandId } = (await control(device, up)).data;
    expect(await rows(), 'accepted, sent').toBe(before + 2);
    await bringUp(device, reply(commandId, 200));
    expect(await rows(), 'acknowledged').toBe(before + 3);
    await bringUp(device, reply(commandId, 200));
    expect(await rows(), 'told again').toBe(before + 3);
  });
});

describe('?wait', () => {
  it('holds the answer until the device replied, and says how long it took', async () => {
    const device = await activateOnline();
    const answering = control(device, up, '?wait=5');
    const { id } = await nextCommand(device);
    await bringUp(device, reply(id, 200));
    const { data } = await answering;
    expect(data).toMatchObject({ message: 'command_sent', commandId: id, state: 'acknowledged' });
    expect(data.elapsedMs).toBeGreaterThanOrEqual(0);
    expect(data.elapsedMs).toBeLessThan(5_000);
  });

  it('ends with the time, saying that nobody replied', async () => {
    const device = await activateOnline();
    const { data } = await control(device, up, '?wait=1');
    expect(data).toMatchObject({ message: 'command_sent', state: 'sent' });
    expect(data.elapsedMs).toBeGreaterThanOrEqual(1_000);
  });

  it('waits for nobody where nobody was subscribed', async () => {
    const device = await activateOnline();
    bridge.hasSubscribers = false;
    const { data } = await control(device, up, '?wait=10');
    expect(data).toMatchObject({ state: 'undelivered' });
    expect(data.elapsedMs).toBeLessThan(5_000);
  });

  it('says that the device refused', async () => {
    const device = await activateOnline();
    const answering = control(device, up, '?wait=5');
    await bringUp(device, reply((await nextCommand(device)).id, 400));
    expect((await answering).data).toMatchObject({ state: 'failed' });
  });
});

describe('Idempotency-Key', () => {
  const withKey = (key: string) => ({ 'Idempotency-Key': key });

  it('makes the same request the same command: same answer, not sent again, also after sleep', async () => {
    const device = await activateOnline();
    const first = await control(device, up, '', withKey('light on'));
    await nextCommand(device);
    await disconnect(device);
    const again = await control(device, up, '', withKey('light on'));
    expect(again.data).toEqual(first.data);
    await sleep(device);
    expect((await control(device, up, '', withKey('light on'))).data).toEqual(first.data);
    expect(unheard(device)).toEqual([]);
    expect((await listOf(device)).total).toBe(1);
  });

  it('is one command for requests that come at the same moment', async () => {
    const device = await activateOnline();
    const answers = await Promise.all(Array.from({ length: 5 }, () => control(device, up, '', withKey('k'))));
    expect(new Set(answers.map(({ data }) => data.commandId)).size).toBe(1);
    await nextCommand(device);
    expect(unheard(device)).toEqual([]);
  });

  it('belongs to its command: another body or another ttl is a mistake', async () => {
    const device = await activateOnline();
    await control(device, up, '', withKey('k'));
    for (const [body, query] of [
      [down, ''],
      [up, '?ttl=5'],
    ] as const) {
      const { status: code, message } = await control(device, body, query, withKey('k'));
      expect(code).toBe(400);
      expect(message).toMatch(/^invalid_request: Idempotency-Key/);
    }
    expect((await control(device, { position: 'up', action: 'toggle' }, '', withKey('k'))).status, 'same').toBe(200);
  });

  it('repeats a failure, too: what was not delivered is not delivered later', async () => {
    const device = await activateOnline();
    bridge.hasSubscribers = 'refused';
    expect((await control(device, up, '', withKey('k'))).status).toBe(500);
    bridge.hasSubscribers = null;
    expect((await control(device, up, '', withKey('k'))).status).toBe(500);
    expect(unheard(device)).toEqual([]);
  });

  it('ends after a day', async () => {
    const device = await activateOnline();
    const first = await control(device, up, '', withKey('k'));
    const nowMs = Date.now();
    setClock(nowMs + 24 * 3_600_000 - 1_000);
    expect((await control(device, up, '', withKey('k'))).data.commandId).toBe(first.data.commandId);
    setClock(nowMs + 24 * 3_600_000 + 1_000);
    expect((await control(device, up, '', withKey('k'))).data.commandId).not.toBe(first.data.commandId);
  });

  it('outlives the hundred commands that are listed', async () => {
    const device = await activateOnline();
    const first = await control(device, up, '', withKey('k'));
    for (let number = 0; number < 101; number++) await control(device, { angle: number });
    expect((await control(device, up, '', withKey('k'))).data).toEqual(first.data);
  });

  it.each(['', 'x'.repeat(65), 'naïve'])('refuses %j', async (key) => {
    const device = await activateOnline();
    expect(await control(device, up, '', withKey(key))).toMatchObject({ status: 400, data: null });
  });

  it('waits for the reply of the command it stands for', async () => {
    const device = await activateOnline();
    const { commandId } = (await control(device, up, '', withKey('k'))).data;
    const answering = control(device, up, '?wait=5', withKey('k'));
    await bringUp(device, reply(commandId, 200));
    expect((await answering).data).toMatchObject({ commandId, state: 'acknowledged' });
  });
});

describe('without ?ttl', () => {
  it('nothing switches by itself after a reconnect', async () => {
    const device = await activateOnline();
    await control(device, up);
    await nextCommand(device);
    await disconnect(device);
    await connect(device);
    await bringUp(device, { action: status, payload: { status: 'online' } }, report({ position: 'down' }));
    await ring(device);
    expect(unheard(device)).toEqual([]);
  });
});

describe('?ttl', () => {
  it.each<[string, (device: Device) => Promise<unknown>]>([
    ['connects', connect],
    ['announces itself', (device) => bringUp(device, { action: status, payload: { status: 'online' } })],
    ['reports', (device) => bringUp(device, report({ angle: 1 }))],
  ])('publishes it again, with the same id, when the device %s', async (_, comeBack) => {
    const device = await activate();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    const first = await nextCommand(device);
    expect(await read(device, commandId)).toMatchObject({ state: 'waiting', kept: true });
    await sleep(device);
    await comeBack(device);
    expect(await nextCommand(device)).toEqual(first);
    await expect.poll(() => read(device, commandId)).toMatchObject({ state: 'sent' });
  });

  it('publishes it once more two seconds later, because devices subscribe late, and then rests', async () => {
    const device = await activate();
    await control(device, up, '?ttl=3600');
    await nextCommand(device);
    await connect(device);
    await nextCommand(device);
    await sleep(device);
    setClock(Date.now() + 2_001);
    await ring(device);
    await nextCommand(device);
    setClock(Date.now() + 60_000);
    await ring(device);
    await bringUp(device, report({ angle: 3 }));
    expect(unheard(device)).toEqual([]);
  });

  it('never publishes it again once the device replied, whatever the code', async () => {
    for (const code of [200, 500]) {
      const device = await activate();
      const { commandId } = (await control(device, up, '?ttl=60')).data;
      await nextCommand(device);
      await connect(device);
      await nextCommand(device);
      await bringUp(device, reply(commandId, code));
      setClock(Date.now() + 2_001);
      await ring(device);
      await disconnect(device);
      await connect(device);
      expect(unheard(device)).toEqual([]);
      vi.restoreAllMocks();
    }
  });

  it('does not publish it where the device returns with the reply', async () => {
    const device = await activateOnline();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    await nextCommand(device);
    await disconnect(device);
    await bringUp(device, reply(commandId, 200));
    expect(await read(device, commandId)).toMatchObject({ state: 'acknowledged' });
    expect(unheard(device)).toEqual([]);
  });

  it('publishes it again when the device takes over a session that still looked alive', async () => {
    const device = await activateOnline();
    await control(device, up, '?ttl=60');
    await nextCommand(device);
    await connect(device);
    expect((await nextCommand(device)).params).toEqual(up);
  });

  it('ends with its time', async () => {
    const device = await activate();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    await nextCommand(device);
    setClock(Date.now() + 60_001);
    await connect(device);
    expect(unheard(device)).toEqual([]);
    expect(await read(device, commandId)).toMatchObject({ state: 'expired' });
  });

  it('gives way to a newer command, kept or not', async () => {
    for (const query of ['?ttl=60', '']) {
      const device = await activate();
      const older = (await control(device, up, '?ttl=60')).data.commandId;
      const newer = (await control(device, down, query)).data.commandId;
      await nextCommand(device);
      await nextCommand(device);
      expect(await read(device, older)).toMatchObject({ state: 'cancelled', reason: 'replaced' });
      await connect(device);
      await expect.poll(() => unheard(device).map(({ id }) => id)).toEqual(query === '' ? [] : [newer]);
    }
  });

  it('outlives a newer command that no broker took', async () => {
    const device = await activate();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    await nextCommand(device);
    bridge.hasSubscribers = 'refused';
    expect((await control(device, down)).status).toBe(500);
    bridge.hasSubscribers = null;
    expect(await read(device, commandId)).toMatchObject({ state: 'waiting' });
    await connect(device);
    expect(await nextCommand(device)).toMatchObject({ id: commandId, params: up });
  });

  it('is not called undelivered where the broker may have it', async () => {
    const device = await activateOnline();
    bridge.hasSubscribers = 'cancelled';
    expect((await control(device, up)).status).toBe(500);
    bridge.hasSubscribers = null;
    const { list } = await listOf(device);
    expect(list).toMatchObject([{ state: 'expired', reason: 'outcome_unknown' }]);
  });

  it('is kept by the broker no longer than it lives', async () => {
    const device = await activate();
    const nowMs = Date.now();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    expect((await bridge.nextFor(device, propertySet)).messageExpirySeconds).toBe(10);
    setClock(nowMs + 57_500);
    await connect(device);
    const again = await bridge.nextFor(device, propertySet);
    expect(again.body).toMatchObject({ id: commandId });
    expect(again.messageExpirySeconds).toBeLessThanOrEqual(3);
  });

  it('is not kept when no broker took it: broker_unavailable is the whole truth', async () => {
    const device = await activate();
    bridge.hasSubscribers = 'refused';
    expect((await control(device, up, '?ttl=60')).status).toBe(500);
    bridge.hasSubscribers = null;
    await connect(device);
    expect(unheard(device)).toEqual([]);
  });
});

describe('DELETE /devices/:deviceId/commands/:commandId', () => {
  it('cancels one that waits for its device', async () => {
    const device = await activate();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    await nextCommand(device);
    const { status: code, data } = await cancel(device, commandId);
    expect(code).toBe(200);
    expect(data).toMatchObject({ commandId, state: 'cancelled', reason: 'requested' });
    await connect(device);
    await ring(device);
    expect(unheard(device)).toEqual([]);
  });

  it('cancels nothing that was published to a device that is there, or that is over', async () => {
    const device = await activateOnline();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    expect(await cancel(device, commandId)).toMatchObject({
      status: 400,
      message: 'invalid_request: commandId: is published already',
    });
    await bringUp(device, reply(commandId, 200));
    expect((await cancel(device, commandId)).message).toBe('invalid_request: commandId: is acknowledged already');
    expect(await cancel(device, 'no-such-command')).toMatchObject({ status: 404, message: 'not_found' });
  });

  it('is refused to others', async () => {
    const device = await activate();
    const { commandId } = (await control(device, up, '?ttl=60')).data;
    const stranger = await createUser();
    for (const method of ['GET', 'DELETE']) {
      const path = `/devices/${device.deviceId}/commands/${commandId}`;
      expect((await call(method, path, { token: stranger.token })).status).toBe(403);
      expect((await call(method, path)).status).toBe(401);
    }
  });
});

describe('GET /devices/:deviceId/properties', () => {
  it('lists what was reported last, and when the position changed', async () => {
    const device = await activate();
    await bringUp(device, report({ position: 'up', angle: 180, wifi_rssi: -60, mood: ['fine'] }));
    await bringUp(device, report({ position: 'down' }), report({ position: 'down' }), report({ position: 'middle' }));
    const { data } = await call<{ list: { name: string; value: unknown; time: string }[]; positionChanges: unknown[] }>(
      'GET',
      `/devices/${device.deviceId}/properties`,
      { token: owner.token },
    );
    const time = expect.stringMatching(/Z$/) as string;
    expect(data.list.toSorted((one, other) => one.name.localeCompare(other.name))).toEqual([
      { name: 'angle', value: 180, time },
      { name: 'mood', value: ['fine'], time },
      { name: 'position', value: 'middle', time },
      { name: 'wifi_rssi', value: -60, time },
    ]);
    expect(data.positionChanges).toEqual([
      { position: 'middle', time },
      { position: 'down', time },
      { position: 'up', time },
    ]);
  });
});
