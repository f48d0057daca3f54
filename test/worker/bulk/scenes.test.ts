// Scenes that are run: each device gets its own command, and the run says who did not confirm in time, and puts back what did.
import { env } from 'cloudflare:workers';
import { expect, it, vi } from 'vitest';
import { openDatabase } from '../../../src/db/client.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { startScene } from '../../../src/objects/calls/start-scene.ts';
import { readBulk, ringBulk, startBulk, takeCommand, untilBulk, untilSettled } from '../rig/bulk.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call } from '../rig/clients/client.ts';
import {
  activate,
  activateOnline,
  control,
  down,
  listOf,
  nextCommand,
  owner,
  prepareOwnerAndBridge,
  reply,
  report,
  ring,
  setClock,
  unheard,
  up,
  type Device,
} from '../rig/commands.ts';

prepareOwnerAndBridge();

const pulse = { action: 'pulse' };

/** A scene of two devices that are down, and its run. */
async function runScene(commands: object[], more: object = {}) {
  const devices = [await activateOnline(), await activateOnline()] as const;
  for (const device of devices) await bringUp(device, report({ position: 'down', angle: 0 }));
  const items = devices.map(({ deviceId }, index) => ({ deviceId, command: commands[index] }));
  const { token } = owner;
  const body = { name: 'Evening', items, deadlineSeconds: 5, ...more };
  const { sceneId } = (await call<{ sceneId: string }>('POST', '/scenes', { token, body })).data;
  const { bulkId } = (await startBulk({}, owner, `/scenes/${sceneId}/run`)).data;
  return { devices, sceneId, bulkId };
}

async function confirm(device: Device, position: string) {
  const { id, params } = await takeCommand(device);
  await bringUp(device, reply(id, 200), report({ position }));
  return params;
}

it('is complete if each device has confirmed, or replied if nothing can show its command', async () => {
  const { devices, sceneId, bulkId } = await runScene([up, pulse], { putBack: true });
  expect((await readBulk(bulkId)).scene).toMatchObject({ isComplete: null, missing: [] });
  expect([await confirm(devices[0], 'up'), await confirm(devices[1], 'down')]).toEqual([up, pulse]);
  const settled = await untilSettled(bulkId);
  expect(settled.summary).toEqual({ confirmed: 1, acknowledged: 1 });
  expect(settled.scene).toEqual({ sceneId, name: 'Evening', isComplete: true, missing: [], putBack: [] });
  for (const { deviceId } of devices) {
    const { data } = await call<{ list: { presses: object }[] }>('GET', `/devices/${deviceId}/usage`, owner);
    expect(data.list.at(-1)?.presses).toMatchObject({ scene: 1, person: 0, hand: 0 });
  }
});

it('names the devices that did not confirm in time', async () => {
  const { devices, bulkId } = await runScene([up, up]);
  await confirm(devices[0], 'up');
  const { id } = await nextCommand(devices[1]);
  await bringUp(devices[1], reply(id, 200));
  await untilBulk(bulkId, ({ summary }) => summary['confirmed'] === 1);
  const nowMs = Date.now();
  setClock(nowMs + 5_001);
  await bringUp(devices[1], report({ position: 'up' }));
  setClock(nowMs + 9_000);
  const { scene, summary } = await untilSettled(bulkId);
  // Confirmed, but too late.
  expect(summary).toEqual({ confirmed: 2 });
  expect(scene).toMatchObject({ isComplete: false, missing: [devices[1].deviceId], putBack: [] });
});

it('puts back what it has confirmed, and no other device', async () => {
  const { devices, bulkId } = await runScene([up, { angle: 90 }], { putBack: true });
  await confirm(devices[0], 'up');
  await bringUp(devices[1], reply((await nextCommand(devices[1])).id, 500));

  expect(await confirm(devices[0], 'down')).toEqual(down);
  const { scene, summary } = await untilSettled(bulkId);
  expect(summary).toEqual({ confirmed: 1, failed: 1 });
  const [first, second] = devices.map(({ deviceId }) => deviceId);
  expect(scene).toMatchObject({ isComplete: false, missing: [second] });
  expect(scene?.putBack).toMatchObject([{ deviceId: first, outcome: 'confirmed', command: { params: down } }]);
  expect(devices.map(unheard)).toEqual([[], []]);
});

it('leaves a device alone that was moved since', async () => {
  const { devices, bulkId } = await runScene([up, up], { putBack: true });
  await confirm(devices[0], 'up');
  await nextCommand(devices[1]);
  await untilBulk(bulkId, ({ summary }) => summary['confirmed'] === 1);
  await bringUp(devices[0], report({ position: 'middle' }));
  setClock(Date.now() + 30_000);
  await ringBulk(bulkId);
  const { scene } = await untilSettled(bulkId);
  expect(scene?.putBack).toMatchObject([{ deviceId: devices[0].deviceId, outcome: 'cancelled', reason: 'moved' }]);
  expect(unheard(devices[0])).toEqual([]);
});

it('is run by a schedule, as its author, and once', async () => {
  const { devices, sceneId, bulkId } = await runScene([up, up]);
  for (const device of devices) await confirm(device, 'up');
  await untilSettled(bulkId);
  const { token } = owner;
  const clock = await activate();
  const at = new Date(Date.now() + 3_600_000).toISOString();
  const schedule = { at, command: { action: 'scene', sceneId } };
  const made = await call('POST', `/devices/${clock.deviceId}/schedules`, { token, body: schedule });
  expect(made).toMatchObject({ code: 200, data: { command: schedule.command, graceSeconds: 60 } });
  setClock(Date.parse(at));
  await ring(clock);
  const acknowledged = { state: 'acknowledged', params: schedule.command };
  await vi.waitFor(async () => expect((await listOf(clock)).list).toMatchObject([acknowledged]));
  const [command] = (await listOf(clock)).list;
  await ringBulk(command!.commandId);
  const [first, second] = [await nextCommand(devices[0]), await nextCommand(devices[1])];
  expect([first.params, second.params, unheard(clock)]).toEqual([up, up, []]);
  expect(await readBulk(command!.commandId)).toMatchObject({ state: 'running', total: 2, scene: { sceneId } });
  // As if the object of the device had not learned that the run has begun.
  await startScene(env, openDatabase(env.DB), inPerson(owner.userId), sceneId, command!.commandId);
  expect(devices.map(unheard)).toEqual([[], []]);
});

it('is not run by a schedule if its author has none, and the run says so', async () => {
  const device = await activate();
  const at = new Date(Date.now() + 3_600_000).toISOString();
  const body = { at, command: { action: 'scene', sceneId: 'none' } };
  await call('POST', `/devices/${device.deviceId}/schedules`, { token: owner.token, body });
  setClock(Date.parse(at));
  await ring(device);
  const runs = () => call<{ list: object[] }>('GET', `/devices/${device.deviceId}/runs`, { token: owner.token });
  const list = [{ outcome: 'refused', reason: 'device replied 404' }];
  await vi.waitFor(async () => expect((await runs()).data).toMatchObject({ list }));
  expect(await control(device, body.command)).toMatchObject({
    code: 400,
    message: expect.stringContaining('invalid_control_params') as string,
  });
});
