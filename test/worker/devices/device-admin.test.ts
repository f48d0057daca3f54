// Administration of one device: renaming, disabling, new credentials, and that revocation reaches live sessions.
import { env } from 'cloudflare:workers';
import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { digestOf } from '../../../src/crypto/secrets.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { createContext } from '../../../src/context.ts';
import { disconnectClient } from '../../../src/services/broker/broker-sessions.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, type Answer } from '../rig/clients/client.ts';
import { bridge, control, nextCommand, owner, prepareOwnerAndBridge, unheard, up } from '../rig/commands.ts';
import { reportConnected as connect, sessionOf } from '../rig/provision.ts';
import { openSocket, type TestSocket } from '../rig/clients/socket.ts';
import { wireErrorOf } from '../../../src/domain/refusal.ts';

const { propertyPost, status } = topicActions;

type Mqtt = Record<'server' | 'username' | 'password' | 'clientId', string> &
  Record<'port' | 'portTLS' | 'keepAlive', number>;
type Device = { productKey: string; deviceId: string; mqtt: Mqtt };
type View = { name: string; status: string; statusCode: number; statusText: string };

prepareOwnerAndBridge();

let count = 0;
async function activate(): Promise<Device> {
  const productKey = `admin-${++count}`;
  await call('POST', '/products', { token: owner.token, body: { productKey, name: 'Switch', offlineGraceSeconds: 0 } });
  const body = { productKey, deviceSN: 'SN' };
  const { data } = await call<{ deviceId: string; mqtt: Mqtt }>('POST', '/devices/activate', { body });
  return { productKey, deviceId: data.deviceId, mqtt: data.mqtt };
}

const change = ({ deviceId }: Device, body: unknown): Promise<Answer<View>> =>
  call('PATCH', `/devices/${deviceId}`, { token: owner.token, body });
const replace = ({ deviceId }: Device): Promise<Answer<{ deviceId: string; mqtt: Mqtt }>> =>
  call('POST', `/devices/${deviceId}/credentials`, { token: owner.token });
const read = async <T = View>({ deviceId }: Device, path = '') =>
  (await call<T>('GET', `/devices/${deviceId}${path}`, { token: owner.token })).data;

async function logIn({ productKey, deviceId, mqtt }: Device, password = mqtt.password): Promise<string> {
  const passwordDigest = await digestOf(password);
  const outcome = await sessionOf(deviceId).authenticate({ productKey, passwordDigest });
  return outcome.ok ? 'accepted' : wireErrorOf(outcome.refusal).message;
}

async function signIn({ mqtt }: Device, password = mqtt.password): Promise<{ socket: TestSocket; answer: unknown }> {
  const socket = await openSocket('/mqtt');
  return { socket, answer: await socket.ask({ action: 'auth', username: mqtt.username, password }) };
}

/** How a message of the device at the broker is taken. */
async function report(device: Device, properties: object): Promise<string> {
  const [result] = await bringUp(device, { action: propertyPost, payload: { params: properties } });
  return result!.reason ?? result!.result;
}

describe('PATCH /devices/:deviceId', () => {
  it('renames the device in every view, and answers it', async () => {
    const device = await activate();
    const { status: code, data } = await change(device, { name: 'Hall light' });
    expect(code).toBe(200);
    expect(data).toEqual(await read(device));
    expect(data).toMatchObject({ deviceId: device.deviceId, name: 'Hall light', status: 'offline' });
    expect(await read(device, '/status')).toMatchObject({ deviceName: 'Hall light' });
    expect((await change(device, {})).data, 'nothing to change').toMatchObject({ name: 'Hall light' });
  });

  it.each([
    { name: '' },
    { name: 'x'.repeat(101) },
    { name: 5 },
    { name: 'a\nb' },
    { disabled: 'yes' },
    { disabled: null },
    [],
  ])('refuses %j', async (body) => {
    const device = await activate();
    expect(await change(device, body)).toMatchObject({ status: 400, data: null });
  });

  it('ends in one truth for simultaneous changes', async () => {
    const device = await activate();
    for (let round = 0; round < 5; round++) {
      await Promise.all([change(device, { disabled: true }), change(device, { disabled: false })]);
      const isOut = (await logIn(device)) === 'device_disabled';
      expect((await read(device)).status).toBe(isOut ? 'disabled' : 'offline');
    }
  });

  it('reaches the record even if D1 is away at that moment', async () => {
    const device = await activate();
    await env.DB.exec("create trigger outage before update on devices begin select raise(abort, 'away'); end");
    const { status: code, data } = await change(device, { name: 'New name', disabled: true });
    expect({ code, ...data }).toMatchObject({ code: 200, name: 'New name', status: 'disabled' });
    expect(await logIn(device)).toBe('device_disabled');
    await evictDurableObject(sessionOf(device.deviceId));
    await env.DB.exec('drop trigger outage');
    await runDurableObjectAlarm(sessionOf(device.deviceId));
    await expect.poll(() => read(device)).toMatchObject({ name: 'New name', status: 'disabled', statusCode: 3 });
  });
});

describe('a disabled device', () => {
  it('cannot log in, activate, report or take commands; enabling restores it with the credentials it has', async () => {
    const device = await activate();
    await change(device, { disabled: true });
    expect(await read(device)).toMatchObject({ status: 'disabled', statusCode: 3, statusText: 'Disabled' });
    expect(await read(device, '/status')).toMatchObject({ status: 'disabled', online: false });
    expect(await logIn(device)).toBe('device_disabled');
    expect((await signIn(device)).answer).toEqual({ action: 'auth', code: 401, message: 'device_disabled' });
    const body = { productKey: device.productKey, deviceSN: 'SN' };
    expect(await call('POST', '/devices/activate', { body })).toMatchObject({
      status: 403,
      message: 'device_disabled',
    });
    expect(await report(device, { position: 'up' })).toBe('device_disabled');
    expect(await control(device, { action: 'trigger' })).toMatchObject({ status: 403, message: 'device_disabled' });
    expect(unheard(device)).toEqual([]);

    expect((await change(device, { disabled: false })).data).toMatchObject({ status: 'offline' });
    expect(await logIn(device)).toBe('accepted');
    expect(await report(device, { position: 'down' })).toBe('accepted');
    expect(await read(device, '/status')).toMatchObject({ status: 'online', position: 'down' });
  });

  it('does not have the service reject its own last word on it, heard back from the broker', async () => {
    const device = await activate();
    await connect(device);
    await change(device, { disabled: true });
    const { body } = await bridge.nextFor(device, status);
    const [echo] = await bringUp(device, { action: status, payload: body });
    expect(echo!.result).toBe('accepted');
    const [own] = await bringUp(device, { action: status, payload: { status: 'offline', time: 1 } });
    expect(own).toMatchObject({ result: 'rejected', reason: 'device_disabled' });
  });

  it('is offline for subscribers from then on, and online again when it is enabled in its session', async () => {
    const device = await activate();
    await connect(device);
    const word = async () => ((await bridge.nextFor(device, status)).body as { status: string }).status;
    expect(await word()).toBe('online');
    await change(device, { disabled: true });
    expect(await word()).toBe('offline');
    await change(device, { disabled: false });
    expect(await word()).toBe('online');
  });

  it('is sent no kept command', async () => {
    const device = await activate();
    await control(device, up, '?ttl=60');
    await nextCommand(device);
    await change(device, { disabled: true });
    await connect(device);
    await runDurableObjectAlarm(sessionOf(device.deviceId));
    expect(unheard(device)).toEqual([]);
  });
});

describe('POST /devices/:deviceId/credentials', () => {
  it('shows a new password once and ends the old ones at once', async () => {
    const device = await activate();
    expect(await logIn(device)).toBe('accepted');
    const { status: code, data } = await replace(device);
    expect(code).toBe(200);
    const { password, ...connection } = device.mqtt;
    expect(data).toEqual({
      deviceId: device.deviceId,
      mqtt: { ...connection, password: expect.stringMatching(/^tk_[A-Za-z0-9]{48}$/) as string },
    });
    expect(data.mqtt.password).not.toBe(password);
    expect(await logIn(device)).toBe('invalid_password');
    expect(await logIn(device, data.mqtt.password)).toBe('accepted');
  });

  it('believes nothing of the revoked session, and everything of the next one', async () => {
    const device = await activate();
    await logIn(device);
    await connect(device);
    await report(device, { position: 'up' });
    const { data } = await replace(device);
    expect(await read(device, '/status')).toMatchObject({ online: false });
    expect(await report(device, { position: 'down' })).toBe('session_revoked');
    expect(await report(device, { position: 'down' })).toBe('session_revoked');
    await connect(device);
    await evictDurableObject(sessionOf(device.deviceId));
    expect(await read(device, '/status'), 'a report of the old session').toMatchObject({
      online: false,
      position: 'up',
    });

    const sentBefore = Date.now() - 1;
    await logIn(device, data.mqtt.password);
    await connect(device);
    const late = { action: propertyPost, payload: { position: 'middle' }, receivedAtMs: sentBefore - 1_000 } as const;
    expect(await bringUp(device, late)).toMatchObject([{ result: 'rejected', reason: 'session_revoked' }]);
    expect(await report(device, { position: 'down' })).toBe('accepted');
    expect(await read(device, '/status')).toMatchObject({ online: true, position: 'down' });
  });
});

describe('revocation', () => {
  it.each<[string, (device: Device) => Promise<{ status: number }>, string]>([
    ['disabling', (device) => change(device, { disabled: true }), 'disabled'],
    ['new credentials', (device) => replace(device), 'credentials_rotated'],
    ['deletion', ({ deviceId }) => call('DELETE', `/devices/${deviceId}`, { token: owner.token }), 'deleted'],
  ])('by %s closes relay sessions at once, and their word counts no more', async (_, revoke, reason) => {
    const device = await activate();
    const { socket } = await signIn(device);
    await socket.ask({ action: 'subscribe', topic: topicOf(device, propertyPost) });
    expect((await revoke(device)).status).toBe(200);
    expect(await socket.end()).toEqual({ code: 1008, reason });
    expect((await signIn(device)).answer).toMatchObject({ code: 401 });
  });

  it('reaches a relay session that signs in at the same moment', async () => {
    for (let round = 0; round < 8; round++) {
      const device = await activate();
      const [{ socket, answer }] = await Promise.all([signIn(device), replace(device)]);
      if ((answer as { code: number }).code === 200) expect(await socket.end()).toMatchObject({ code: 1008 });
      else expect(answer).toMatchObject({ code: 401, message: 'invalid_password' });
    }
  });
});

it('a broker that is away when a device is revoked, or answers with an error, is in the log and keeps nobody waiting', async () => {
  const config = readConfig(env);
  const api = { url: 'https://broker.test:18083', key: 'the-key', secret: 'the-secret' };
  const context = createContext(env, { ...config, broker: { ...config.broker, api } });
  const end = () => disconnectClient(context, { productKey: 'switch', deviceId: 'dev_00000000' });
  const log = vi.spyOn(console, 'warn').mockReturnValue();
  const fetch = vi.spyOn(globalThis, 'fetch').mockRejectedValueOnce(new Error('connection refused'));
  await end();
  fetch.mockResolvedValueOnce(new Response('no', { status: 401 }));
  await end();
  fetch.mockResolvedValueOnce(new Response(null, { status: 404 }));
  await end();
  expect(log).toHaveBeenCalledTimes(2);
  expect(JSON.stringify(log.mock.calls)).not.toContain('the-secret');
});
