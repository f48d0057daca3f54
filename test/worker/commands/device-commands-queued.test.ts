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

type Key = { keyId: string; apiKey: string };

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

describe('the queued command of a user or API key that may send none any more', () => {
  const body = { scopes: ['control'] };
  const makeKey = async () => (await call<Key>('POST', '/users/api-keys', { token: owner.token, body })).data;
  const remove = ({ deviceId }: Device, { userId }: TestUser) =>
    call('DELETE', `/devices/${deviceId}/members/${userId}`, { token: owner.token });
  const disable = ({ userId }: TestUser) =>
    env.DB.prepare('update users set disabled_at = 1 where id = ?').bind(userId).run();

  async function queue(device: Device, options: CallOptions) {
    const sent = await call<Receipt>('POST', `/devices/${device.deviceId}/control?ttl=60`, { ...options, body: up });
    await nextCommand(device);
    return sent.data.commandId;
  }

  async function expectNotPublished(device: Device, commandId: string) {
    await sleep(device);
    await connect(device);
    await expect.poll(() => read(device, commandId)).toMatchObject({ state: 'cancelled', reason: 'revoked' });
    await ring(device);
    expect(unheard(device)).toEqual([]);
  }

  it.each<[string, (device: Device, operator: TestUser) => Promise<unknown>]>([
    ['removed', remove],
    [
      'made a viewer',
      ({ deviceId }, { userId }) =>
        call('PATCH', `/devices/${deviceId}/members/${userId}`, { token: owner.token, body: { role: 'viewer' } }),
    ],
    ['invited anew as a viewer', (device, operator) => share(device, operator, 'viewer', owner)],
  ])('is cancelled at once when an operator is %s', async (_, end) => {
    const device = await activate();
    const operator = await createUser();
    await share(device, operator, 'operator', owner);
    const commandId = await queue(device, operator);
    await end(device, operator);
    expect(await read(device, commandId)).toMatchObject({ state: 'cancelled', reason: 'revoked' });
    await expectNotPublished(device, commandId);
  });

  it('is not carried out after the account of an operator was disabled', async () => {
    const device = await activate();
    const operator = await createUser();
    await share(device, operator, 'operator', owner);
    const commandId = await queue(device, operator);
    await disable(operator);
    await expectNotPublished(device, commandId);
  });

  it('is not carried out after the API key was deleted', async () => {
    const device = await activate();
    const key = await makeKey();
    const commandId = await queue(device, { key });
    await call('DELETE', `/users/api-keys/${key.keyId}`, { token: owner.token });
    await expectNotPublished(device, commandId);
  });

  it('stays queued when another operator is removed, and is carried out for a valid key and operator', async () => {
    const device = await activate();
    const [operator, other] = [await createUser(), await createUser()];
    for (const user of [operator, other]) await share(device, user, 'operator', owner);
    for (const sender of [{ token: operator.token }, { key: await makeKey() }]) {
      const commandId = await queue(device, sender);
      await remove(device, other);
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
