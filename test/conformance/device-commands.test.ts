// Commands to a real device, by each way in: followed to its reply, kept while it is away, and never repeated.
import { describe, expect, it, vi } from 'vitest';
import { sendCommand, type Activation } from '../../rig/clients/accounts.ts';
import { connectDevice, newDevice, signUp } from '../../rig/clients/conformance-client.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { dataOf } from '../../rig/clients/api.ts';

const owner = await signUp();
const up = { action: 'toggle', position: 'up' } as const;

const control = (device: Activation, query = {}, json: { action: 'toggle'; position: 'up' | 'down' } = up) =>
  sendCommand(owner.api, device, json, query);

/** As stock firmware: MQTT 3.1.1, clean session, QoS 0. Replies on the report topic where it is told to. */
async function startDevice(activation: Activation, replies: boolean): Promise<MqttTestClient> {
  const device = await connectDevice(activation);
  const { propertySet, propertyPost } = activation.topics;
  device.client.on('message', (_, payload) => {
    const { id, params } = JSON.parse(payload.toString()) as { id: string; params: { position?: string } };
    if (!replies) return;
    const send = (body: object) => device.client.publish(propertyPost, JSON.stringify(body));
    send({ method: 'thing.service.property.set_reply', id, code: 200 });
    send({ params: { position: params.position } });
  });
  await device.client.subscribeAsync(propertySet, { qos: 0 });
  return device;
}

const commandsHeard = (device: MqttTestClient) =>
  device.heard.map(({ payload }) => (JSON.parse(payload) as { id: string }).id);

describe('a command', () => {
  it('waits for the reply of the device and is confirmed by its report', async () => {
    const activation = await newDevice(owner);
    const params = { deviceId: activation.deviceId };
    await startDevice(activation, true);
    const receipt = await control(activation, { wait: '5' });
    expect(receipt).toMatchObject({
      message: 'command_sent',
      state: expect.stringMatching(/acknowledged|confirmed/) as string,
    });
    expect(receipt.elapsedMs).toBeLessThan(2_000);
    const { commandId } = receipt;
    const read = () =>
      dataOf(owner.api.devices[':deviceId'].commands[':commandId'].$get({ param: { ...params, commandId } }));
    await vi.waitFor(async () => expect(await read()).toMatchObject({ state: 'confirmed', replyCode: 200 }));
  });

  it('that is kept reaches a device that comes back with a clean session, once it subscribed, and no later one', async () => {
    const activation = await newDevice(owner);
    const params = { deviceId: activation.deviceId };
    const { commandId } = await control(activation, { ttl: '60' });
    const read = () =>
      dataOf(owner.api.devices[':deviceId'].commands[':commandId'].$get({ param: { ...params, commandId } }));
    expect(await read()).toMatchObject({ kept: true, state: 'waiting' });
    const device = await startDevice(activation, true);
    await vi.waitFor(() => expect(commandsHeard(device)).toContain(commandId));
    await vi.waitFor(async () => expect(await read()).toMatchObject({ state: 'confirmed' }));
    await device.leave();

    const again = await startDevice(activation, true);
    const receipt = await control(activation, { wait: '5' }, { action: 'toggle', position: 'down' });
    expect(commandsHeard(again), 'nothing but what was asked since').toEqual([receipt.commandId]);
  });

  it('without a ttl to an absent device is not queued: it never switches anything after a reconnect', async () => {
    const activation = await newDevice(owner);
    const missed = await control(activation);
    const device = await startDevice(activation, true);
    const receipt = await control(activation, { wait: '5' });
    expect(missed.deviceOnline).toBe(false);
    expect(commandsHeard(device)).toEqual([receipt.commandId]);
  });

  it('that nobody answers says so when the time is up', async () => {
    const activation = await newDevice(owner);
    await startDevice(activation, false);
    const receipt = await control(activation, { wait: '1' });
    expect(receipt).toMatchObject({ state: 'sent' });
    expect(receipt.elapsedMs).toBeGreaterThanOrEqual(1_000);
  });
});

it('new credentials end the session at the broker; the device comes back with the new password alone', async () => {
  const activation = await newDevice(owner);
  const params = { deviceId: activation.deviceId };
  const device = await startDevice(activation, true);
  const startedAtMs = Date.now();
  const { mqtt } = await dataOf(owner.api.devices[':deviceId'].credentials.$post({ param: params }));
  await device.untilClosed();
  expect(Date.now() - startedAtMs, 'milliseconds until the broker session was over').toBeLessThan(3_000);
  await expect(startDevice(activation, true)).rejects.toThrow();
  await startDevice({ ...activation, mqtt }, true);
  const receipt = await control(activation, { wait: '5' });
  expect(receipt.state).toMatch(/acknowledged|confirmed/);
});
