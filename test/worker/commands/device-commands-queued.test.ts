// Commands for a device that is away: queued with ?ttl, published when it returns, cancelled.
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import {
  activate,
  activateOnline,
  bridge,
  cancel,
  closeBridge,
  connect,
  control,
  nextCommand,
  openBridge,
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
