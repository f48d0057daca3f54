// Fifty devices on bridges of at most fifteen, a service that cannot be heard for a while, and an API key that is deleted.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../rig/changes.ts';
import { activateMany, type Activation } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { TcpProxy } from '../../rig/clients/tcp-proxy.ts';
import type { ServiceProcess } from '../../rig/services/processes.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';
import { startController, type MatterController, type PairedBridge } from '../../matter-bridge/test/controller.ts';
import { startStage, type Board, type MatterStage } from './stage.ts';

let stage: MatterStage;
let proxy: TcpProxy;
let devices: Activation[];
let key: Record<string, string>;
let bridge: ServiceProcess;
let controller: MatterController;
let board: Board;
const bridges: PairedBridge[] = [];

const startBridge = () => stage.startBridge({ WORKER_URL: proxy.url, DEVICES_PER_BRIDGE: '15', ...key });
const idsByBridge = () => bridges.map((one) => one.deviceIds());
const plug = ({ deviceId } = devices[49]!) => bridges.find((one) => one.deviceIds().includes(deviceId))!.plug(deviceId);

beforeAll(async () => {
  stage = await startStage();
  proxy = await TcpProxy.start(stage.rig.port);
  const serials = Array.from({ length: 50 }, (_, n) => `MANY-${n}`);
  devices = await activateMany(stage.api, stage.productKey, serials);
  board = await stage.connect(devices[49]!);
  key = await stage.makeKey('read', 'control');
  bridge = await startBridge();
  controller = await startController(makeTempDir('controller'));
});
afterAll(async () => {
  await bridge.kill('SIGKILL');
  await controller.stop();
  await board.leave();
  await proxy.stop();
  await stage.rig.stop();
});

it('spreads devices over bridges that are paired one by one', async () => {
  for (const line of bridge.lines.filter(({ message }) => message === 'a bridge waits to be paired')) {
    bridges.push(await controller.pair(line));
  }
  expect(idsByBridge().map(({ length }) => length)).toEqual([15, 15, 15, 5]);
  expect(idsByBridge().flat().sort()).toEqual(devices.map(({ deviceId }) => deviceId).sort());
});

it('keeps each device on its bridge over the death of its process', async () => {
  const before = idsByBridge();
  await bridge.kill('SIGKILL');
  bridge = await startBridge();
  for (const one of bridges) await one.reconnect();
  await plug().commands.on();
  expect(board.commands).toEqual([{ action: 'toggle', position: 'up' }]);
  await eventually('on', () => plug().isOn);
  expect(plug(devices[0]).isOn).toBe(false);
  expect(idsByBridge()).toEqual(before);
});

it('shows no device as reachable while the service cannot be heard', async () => {
  expect(plug().isReachable).toBe(true);
  proxy.cut('reset');
  await eventually('unreachable', () => !plug().isReachable);
  proxy.heal(true);
  await eventually('reachable', () => plug().isReachable);
});

it('ends when its API key is deleted', async () => {
  const param = { keyId: key['API_KEY_ID']! };
  await dataOf(stage.api.users['api-keys'][':keyId'].$delete({ param }));
  expect(await bridge.untilExit()).toBe(2);
  await bridge.untilLogged('the service no longer accepts the API key');
});
