// Commands for a device that is away: queued with ?ttl, published when it returns, cancelled.
import { env } from 'cloudflare:workers';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, createUser, type CallOptions, type TestUser } from '../rig/clients/client.ts';
import { share } from '../rig/sharing.ts';
import {
  activate,
  activateOnline,
  bridge,
  cancel,
  closeBridge,
  connect,
  control,
  disconnect,
  nextCommand,
  openBridge,
  owner,
  read,
  reply,
  report,
  ring,
  setClock,
  signUpOwner,
  sleep,
  unheard,
  up,
  type Device,
  type Receipt,
} from '../rig/commands.ts';

const { propertySet, status } = topicActions;

beforeAll(signUpOwner);
beforeEach(openBridge);
afterEach(closeBridge);

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
});

describe('the queued command', () => {
  type Key = { keyId: string; apiKey: string };
  let device: Device;
  let operator: TestUser;
  let key: Key;

  beforeEach(async () => {
    [device, operator] = await Promise.all([activate(), createUser()]);
    await share(device, operator, 'operator', owner);
    key = (await call<Key>('POST', '/users/api-keys', { token: owner.token, body: { scopes: ['control'] } })).data;
  });

  const byOwner = (method: string, path: string, body?: object) => call(method, path, { token: owner.token, body });
  const ofMember = () => `/devices/${device.deviceId}/members/${operator.userId}`;
  async function queue(options: CallOptions) {
    const sent = await call<Receipt>('POST', `/devices/${device.deviceId}/control?ttl=60`, { ...options, body: up });
    await nextCommand(device);
    return sent.data.commandId;
  }

  it.each<[string, string, () => Promise<unknown>]>([
    ['of a removed operator', 'cancelled', () => byOwner('DELETE', ofMember())],
    ['of an operator made a viewer', 'cancelled', () => byOwner('PATCH', ofMember(), { role: 'viewer' })],
    ['of an operator invited anew as a viewer', 'cancelled', () => share(device, operator, 'viewer', owner)],
    [
      'of an operator with a disabled account',
      'waiting',
      () => env.DB.prepare('update users set disabled_at = 1 where id = ?').bind(operator.userId).run(),
    ],
    ['of a deleted API key', 'waiting', () => byOwner('DELETE', `/users/api-keys/${key.keyId}`)],
  ])('%s is not carried out', async (giver, state, end) => {
    const commandId = await queue(giver.endsWith('key') ? { key } : { token: operator.token });
    await end();
    expect(await read(device, commandId)).toMatchObject({ state });
    await sleep(device);
    await connect(device);
    await expect.poll(() => read(device, commandId)).toMatchObject({ state: 'cancelled', reason: 'revoked' });
    await ring(device);
    expect(unheard(device)).toEqual([]);
  });

  it('of a valid key or operator is carried out, also when another member is removed', async () => {
    const other = await createUser();
    for (const giver of [{ token: operator.token }, { key }]) {
      await share(device, other, 'operator', owner);
      const commandId = await queue(giver);
      await byOwner('DELETE', `/devices/${device.deviceId}/members/${other.userId}`);
      await sleep(device);
      await connect(device);
      expect(await nextCommand(device)).toMatchObject({ id: commandId });
      await bringUp(device, reply(commandId, 200));
      await disconnect(device);
    }
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
});
