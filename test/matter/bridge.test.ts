// The Matter bridge between the built Worker and a Matter controller on loopback. Boards obey, refuse, are silent, or leave.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../rig/changes.ts';
import { activate, addProduct, type Activation } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import type { ServiceProcess } from '../../rig/services/processes.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';
import { startController, type MatterController, type PairedBridge } from '../../matter-bridge/test/controller.ts';
import { startStage, type Board, type MatterStage } from './stage.ts';

let stage: MatterStage;
let hall: Activation;
let board: Board;
let bridge: ServiceProcess;
let controller: MatterController;
let paired: PairedBridge;

const plug = ({ deviceId } = hall) => paired.plug(deviceId);
const devices = () => stage.api.devices[':deviceId'];
const rename = (name: string) => dataOf(devices().$patch({ param: hall, json: { name } }));
const untilOn = (isOn: boolean) => eventually(`OnOff ${isOn}`, () => plug().isOn === isOn);

beforeAll(async () => {
  stage = await startStage();
  hall = await stage.activate('HALL');
  board = await stage.connect(hall);
  await board.report('up');
  const other = await addProduct(stage.rig.owner, { uiTemplate: 'three_position' });
  await activate(stage.api, other, 'OTHER');
  bridge = await stage.startBridge();
  controller = await startController(makeTempDir('controller'));
});
afterAll(async () => {
  await bridge.kill('SIGTERM');
  await controller.stop();
  await board.leave();
  await stage.rig.stop();
});

it('pairs with the code that it prints, and shows each switch with two positions', async () => {
  const said = await bridge.untilLogged('devices are read: only switches with two positions are offered');
  expect(said).toMatchObject({ offered: 1, notOffered: 1 });
  paired = await controller.pair(await bridge.untilLogged('a bridge waits to be paired'));
  expect(paired.deviceIds()).toEqual([hall.deviceId]);
  expect(plug()).toMatchObject({ isOn: true, isReachable: true });
});

it('turns a device off and on, and toggles it by what it reported', async () => {
  await plug().commands.off();
  expect(board.commands).toEqual([{ action: 'toggle', position: 'down' }]);
  await untilOn(false);
  await plug().commands.on();
  await untilOn(true);
  await plug().commands.toggle();
  expect(board.commands.at(-1)).toEqual({ action: 'toggle', position: 'down' });
  await untilOn(false);
});

it.each(['refuses', 'is silent'] as const)(
  'answers an error and shows what is reported if a device %s',
  async (mood) => {
    board.mood = mood;
    const seen = board.commands.length;
    await expect(plug().commands.on()).rejects.toThrow('Failure (code 1)');
    board.mood = 'obeys';
    expect(board.commands).toHaveLength(seen + 1);
    await rename(`A device that ${mood}`);
    await eventually('what came later', () => plug().name === `A device that ${mood}`);
    expect(plug().isOn).toBe(false);
  },
);

it('is on for a time by a lease, whose end the service sends', async () => {
  await plug().commands.onWithTimedOff({ onOffControl: {}, onTime: 50, offWaitTime: 0 });
  const { lease } = await dataOf(devices().status.$get({ param: hall }));
  expect(lease).toMatchObject({ state: 'running', then: { position: 'down' } });
  await untilOn(true);
  await untilOn(false);
});

it('follows a hand at the device, and keeps the last position while the device reports another one', async () => {
  await board.report('up');
  await untilOn(true);
  await board.report('middle');
  await board.report();
  await rename('Hall');
  await eventually('what came later', () => plug().name === 'Hall');
  expect(plug().isOn).toBe(true);
});

it('tells when a device goes and comes back', async () => {
  const events: boolean[] = [];
  plug().events.reachableChanged.on(({ reachableNewValue }) => void events.push(reachableNewValue));
  await board.leave();
  await eventually('unreachable', () => !plug().isReachable);
  board = await stage.connect(hall);
  await eventually('both events', () => events.length === 2);
  expect(events).toEqual([false, true]);
  expect(plug().isReachable).toBe(true);
});

it('takes a new name, cut to what a label holds, a new device, and a removal', async () => {
  await rename('The 👩‍👩‍👧 lamp over the table');
  await eventually('the name', () => plug().name === 'The 👩‍👩‍👧 lamp o…');
  const attic = await stage.activate('ATTIC');
  const other = await stage.connect(attic);
  await other.report('up');
  await eventually('the new device', () => paired.deviceIds().includes(attic.deviceId));
  await eventually('its state', () => plug(attic).isOn && plug(attic).isReachable);
  await plug(attic).commands.off();
  expect(other.commands).toHaveLength(1);
  await other.leave();
  await dataOf(devices().$delete({ param: attic }));
  await eventually('the removal', () => !paired.deviceIds().includes(attic.deviceId));
});

it('keeps pairing, numbers and states over a restart of its process', async () => {
  const { number } = plug();
  expect(await bridge.kill('SIGTERM')).toBe(0);
  await rename('Renamed meanwhile');
  await board.report('down');
  bridge = await stage.startBridge();
  await paired.reconnect();
  await eventually('the new name', () => plug().name === 'Renamed meanwhile');
  await untilOn(false);
  expect(plug().number).toBe(number);
  expect(bridge.lines.map(({ message }) => message)).not.toContain('a bridge waits to be paired');
});

it('can be paired again after its last controller left', async () => {
  await board.report('up');
  await untilOn(true);
  await paired.leave();
  paired = await controller.pair(await bridge.untilLogged('a bridge waits to be paired'));
  expect(plug()).toMatchObject({ isOn: true, isReachable: true, name: 'Renamed meanwhile' });
  await plug().commands.off();
  await untilOn(false);
});

it.each([
  ['a wrong key', () => Promise.resolve({ API_KEY: 'sk_wrong' }), 'refuses API_KEY_ID and API_KEY'],
  ['a key that may not control', () => stage.makeKey('read'), 'lacks the scope control'],
  ['a key that may not read', () => stage.makeKey('control'), 'lacks the scope read'],
])('does not start with %s', async (name, makeKey, cause) => {
  const refused = await stage.startBridge({ ...(await makeKey()), STORAGE_DIR: makeTempDir('refused') });
  expect(await refused.untilExit()).toBe(2);
  expect(refused.lines.at(-1)).toMatchObject({ message: 'the Matter bridge cannot start' });
  expect(refused.lines.at(-1)?.['cause']).toContain(cause);
});

it('reports all mistakes of its settings together, and no secret', async () => {
  const settings = { API_KEY: 'not a key', API_KEY_ID: '', STORAGE_DIR: '', MATTER_PORT: '80', MATTER_INTERFACE: 'x' };
  const refused = await stage.startBridge(settings);
  expect(await refused.untilExit()).toBe(2);
  for (const setting of Object.keys(settings)) expect(refused.stderr).toContain(`- ${setting} `);
  expect(refused.stderr).not.toContain('not a key');
});
