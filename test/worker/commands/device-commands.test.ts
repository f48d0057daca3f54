// Commands over HTTP and in the device's object: what is answered, what reaches the device, how far each has come.
import { describe, expect, it, vi } from 'vitest';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { createKey } from '../rig/authorization-callers.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { rowsWritten, untilSettled } from '../rig/device-rows.ts';
import { call } from '../rig/clients/client.ts';
import {
  activate,
  activateOnline,
  bridge,
  connect,
  control,
  disconnect,
  down,
  listOf,
  openBridge,
  prepareOwnerAndBridge,
  owner,
  read,
  reply,
  report,
  ring,
  sleep,
  unheard,
  up,
} from '../rig/commands.ts';

const { propertySet } = topicActions;

prepareOwnerAndBridge();

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

  it('refuses to keep a momentary one', async () => {
    const device = await activateOnline();
    const { status: code, message } = await control(device, { switch: true, angle: 5 }, '?ttl=60');
    expect(code).toBe(400);
    expect(message).toMatch(/^invalid_request: ttl: /);
    expect(unheard(device)).toEqual([]);
  });

  it('answers broker_unavailable when no bridge takes it in time, and never delivers it later', async () => {
    const device = await activateOnline();
    await bridge.close();
    const { status: code, message } = await control(device, up);
    expect({ code, message }).toEqual({ code: 500, message: 'broker_unavailable' });
    const [command] = (await listOf(device)).list;
    expect(command).toMatchObject({ state: 'undelivered', reason: 'broker_unavailable', kept: false });
    await openBridge();
    await disconnect(device);
    await connect(device);
    await ring(device);
    expect(unheard(device)).toEqual([]);
  });
});

describe('the life of a command', () => {
  it('is told step by step, with times in their order, over sleep as well', async () => {
    const device = await activateOnline();
    const { commandId } = (await control(device, up)).data;
    expect(await read(device, commandId)).toMatchObject({ state: 'sent', params: up, kept: false });
    await sleep(device);
    await bringUp(device, reply(commandId, 200));
    expect(await read(device, commandId)).toMatchObject({ state: 'acknowledged', replyCode: 200 });
    await sleep(device);
    await bringUp(device, report({ position: 'up' }));
    await sleep(device);
    const { state, steps } = await read(device, commandId);
    expect(state).toBe('confirmed');
    const { accepted, published, brokerAcknowledged, deviceAcknowledged, confirmed } = steps;
    const times = [accepted, published, brokerAcknowledged, deviceAcknowledged, confirmed];
    expect(times.every((time) => Number.isInteger(time))).toBe(true);
    expect(times.toSorted((one, other) => one! - other!)).toEqual(times);
  });

  it('tells whose it is, and whether an API key sent it, also after sleep', async () => {
    const device = await activateOnline();
    const path = `/devices/${device.deviceId}`;
    const { userId, token } = owner;
    const key = await createKey(owner);
    await control(device, up);
    await call('POST', `${path}/control`, { key, body: down });
    await sleep(device);
    expect(await call('GET', `${path}/commands`, { token })).toMatchObject({
      data: { list: [{ givenBy: { userId, withKey: true } }, { givenBy: { userId, withKey: false } }] },
    });
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
    const rows = () => rowsWritten(device.deviceId);
    await untilSettled(device.deviceId);
    const before = await rows();
    const { commandId } = (await control(device, up)).data;
    expect(await rows(), 'accepted, sent').toBe(before + 2);
    await bringUp(device, reply(commandId, 200));
    expect(await rows(), 'acknowledged').toBe(before + 3);
    await bringUp(device, reply(commandId, 200));
    expect(await rows(), 'told again').toBe(before + 3);
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

  it('shows what was not understood, also after the object slept', async () => {
    const device = await activate();
    const log = vi.spyOn(console, 'info').mockReturnValue();
    await bringUp(device, report({ position: 'sideways', angle: 4 }));
    await bringUp(device, report({ position: 'sideways', angle: 5 }));
    const lines = log.mock.calls.flatMap(([line]) => (String(line).includes('message rejected') ? [String(line)] : []));
    log.mockRestore();
    // One line for many messages, without their text.
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      {
        level: 'info',
        event: 'device message rejected',
        deviceId: device.deviceId,
        topic: 'thing/event/property/post',
        reason: 'wrong_type',
        dropped: ['position'],
      },
    ]);
    const read = async () => {
      const path = `/devices/${device.deviceId}/properties`;
      return (await call<{ lastRejected: unknown }>('GET', path, { token: owner.token })).data.lastRejected;
    };
    const shown = {
      topic: 'thing/event/property/post',
      reason: 'wrong_type',
      dropped: ['position'],
      // The newest, whose row was not due.
      text: expect.stringContaining('"position":"sideways","angle":5') as string,
      time: expect.stringMatching(/Z$/) as string,
    };
    expect(await read()).toEqual(shown);
    await sleep(device);
    expect(await read()).toEqual(shown);
  });
});
