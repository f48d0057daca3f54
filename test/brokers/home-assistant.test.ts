// Home Assistant itself, headless, with its own MQTT integration at `/mqtt/home` of the built Worker: what its users see and press.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { activate, addProduct } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { makeHomeKey, type HomeKey } from '../../rig/clients/home-client.ts';
import { SwitchDevice } from '../../rig/clients/switch-device.ts';
import { HomeAssistant } from '../../rig/home-assistant/home-assistant.ts';
import type { GatewayProcess } from '../../rig/services/processes.ts';
import { WholeService } from '../../rig/services/whole-service.ts';
import { workerVars } from '../../rig/worker/worker-rig.ts';

const missing = HomeAssistant.missing();

describe.skipIf(missing !== null)(`Home Assistant${missing === null ? '' : ` (${missing})`}`, () => {
  const devices: Record<string, SwitchDevice> = {};
  let service: WholeService<GatewayProcess>;
  let home: HomeAssistant;
  let key: HomeKey;

  beforeAll(async () => {
    const LIMITS = `${workerVars.LIMITS},directReconnectGraceSeconds=2`;
    service = await WholeService.startWithGateway({ LIMITS });
    await make('lamp', { uiTemplate: 'two_position' }, { position: 'down', wifi_rssi: -61 });
    await make('lever', {}, { position: 'middle' });
    await make('bot', { controlMode: 'pulse' }, { power: 0 });
    await make('dimmer', { controlMode: 'dimmer' }, { angle: 30 });
    await make('meter', { controlMode: 'readonly' }, { position: 'up' });
    const by = { property: 'power', operator: '>' as const, value: 5 };
    const witness = { expect: 'on' as const, by, withinSeconds: 5, then: 'nothing' as const };
    await dataOf(service.rig.owner.api.devices[':deviceId'].witness.$put({ param: idOf('bot'), json: witness }));
    await device('bot').report({ power: 1 });
    key = await makeHomeKey(service.rig.owner.api);
    const { keyId: username, apiKey: password } = key;
    home = await HomeAssistant.start({ mqtt: { port: service.rig.port, path: '/mqtt/home', username, password } });
  });
  afterAll(async () => {
    await home.stop();
    for (const made of Object.values(devices)) await made.leave();
    await service.stop();
  });

  async function make(name: string, product: Parameters<typeof addProduct>[1], reported: Record<string, unknown>) {
    const { api } = service.rig.owner;
    const productKey = await addProduct(service.rig.owner, { ...product, offlineGraceSeconds: 0 });
    const activation = await activate(api, productKey, `HA-${name}`, { firmwareVersion: '1.4.2' });
    await dataOf(api.devices[':deviceId'].$patch({ param: { deviceId: activation.deviceId }, json: { name } }));
    devices[name] = await SwitchDevice.connect(service.rig.url, activation);
    await device(name).report(reported);
  }
  function device(name: string): SwitchDevice {
    const found = devices[name];
    if (found === undefined) throw new Error(`no device ${name}`);
    return found;
  }
  const idOf = (name: string) => ({ deviceId: device(name).deviceId });
  async function untilStates(expected: Record<string, string | undefined>): Promise<void> {
    let states: Record<string, string> = {};
    const entities = Object.entries(expected);
    const look = async () => {
      states = Object.fromEntries((await home.states()).map(({ entity_id: id, state }) => [id, state]));
      return entities.every(([id, state]) => states[id] === state);
    };
    await home.until(JSON.stringify(expected), look).catch((error: unknown) => {
      throw new Error(`states are ${JSON.stringify(states)}`, { cause: error });
    });
  }

  it('every kind of device stands there, with what it reported and nothing else', async () => {
    await untilStates({
      'switch.lamp': 'off',
      'sensor.lamp_signal_strength': '-61',
      'sensor.lamp_firmware': '1.4.2',
      'sensor.lamp_last_outcome': 'unknown',
      'select.lever_position': 'middle',
      'button.bot_pulse': 'unknown',
      'button.bot_trigger': 'unknown',
      'switch.bot_seen': 'off',
      'number.dimmer_angle': '30',
      'sensor.meter_reported_position': 'up',
      'switch.meter': undefined,
    });
  });

  it('a press travels, and state returns when the device reports it', async () => {
    await home.call('switch', 'turn_on', { entity_id: 'switch.lamp' });
    await untilStates({ 'switch.lamp': 'on', 'sensor.lamp_last_outcome': 'confirmed' });
    expect(device('lamp').commands.map(({ params }) => params)).toEqual([{ action: 'toggle', position: 'up' }]);
    await home.call('select', 'select_option', { entity_id: 'select.lever_position', option: 'down' });
    await home.call('number', 'set_value', { entity_id: 'number.dimmer_angle', value: 120 });
    await untilStates({ 'select.lever_position': 'down', 'number.dimmer_angle': '120' });
    await home.call('button', 'press', { entity_id: 'button.bot_trigger' });
    await untilStates({ 'sensor.bot_last_outcome': 'acknowledged' });
    // By hand.
    await device('lamp').report({ position: 'down' });
    await untilStates({ 'switch.lamp': 'off' });
    await device('lamp').report({ position: 'middle' });
    await untilStates({ 'switch.lamp': 'unknown' });
  });

  it('nothing is shown that was only asked: a device that refuses, one that is silent, a witness that sees nothing', async () => {
    const lamp = device('lamp');
    await lamp.report({ position: 'down' });
    lamp.behaviour = 'refuses';
    await home.call('switch', 'turn_on', { entity_id: 'switch.lamp' });
    await untilStates({ 'switch.lamp': 'off', 'sensor.lamp_last_outcome': 'failed' });
    const { attributes } = (await home.state('sensor.lamp_last_outcome')) ?? {};
    expect(attributes).toMatchObject({ reason: 'device replied 500', command: 'toggle position up' });
    lamp.behaviour = 'silent';
    await home.call('switch', 'turn_on', { entity_id: 'switch.lamp' });
    await untilStates({ 'switch.lamp': 'off', 'sensor.lamp_last_outcome': 'expired' });
    lamp.behaviour = 'obeys';
    await device('bot').report({ power: 1 });
    await home.call('switch', 'turn_on', { entity_id: 'switch.bot_seen' });
    expect((await device('bot').untilCommanded(2))[1]?.params).toEqual({ action: 'pulse' });
    await untilStates({ 'sensor.bot_last_outcome': 'acknowledged', 'switch.bot_seen': 'off' });
    await device('bot').report({ power: 60 });
    await untilStates({ 'switch.bot_seen': 'on' });
  });

  it('availability, names and removals follow', async () => {
    const { api } = service.rig.owner;
    await device('lever').leave();
    await untilStates({ 'select.lever_position': 'unavailable', 'switch.lamp': 'off' });
    devices['lever'] = await SwitchDevice.connect(service.rig.url, device('lever').activation);
    await untilStates({ 'select.lever_position': 'down' });
    const named = (deviceId: string) => async () => {
      const { devices: known } = await home.registry();
      return known.find(({ identifiers }) => identifiers[0]?.[1] === `latchwork_${deviceId}`)?.name ?? null;
    };
    const nameOf = named(device('lever').deviceId);
    await dataOf(api.devices[':deviceId'].$patch({ param: idOf('lever'), json: { name: 'Big lever' } }));
    await home.until('the new name', async () => (await nameOf()) === 'Big lever');
    await dataOf(api.devices[':deviceId'].witness.$delete({ param: idOf('bot') }));
    await untilStates({ 'switch.bot_seen': undefined, 'button.bot_pulse': 'unknown' });
    await dataOf(api.devices[':deviceId'].$delete({ param: idOf('lever') }));
    await home.until('the removal', async () => (await nameOf()) === null);
    await untilStates({ 'select.lever_position': undefined });
  });

  it('a restart of either side leaves nothing stale, not even a device that was deleted meanwhile', async () => {
    const { rig } = service;
    await home.stop();
    await device('lamp').report({ position: 'up' });
    await dataOf(rig.owner.api.devices[':deviceId'].$delete({ param: idOf('meter') }));
    await home.restart();
    await untilStates({
      'switch.lamp': 'on',
      'sensor.meter_reported_position': undefined,
      'number.dimmer_angle': '120',
    });
    await rig.restartWorker('kill');
    await untilStates({ 'switch.lamp': 'unavailable' });
    const again = await SwitchDevice.connect(rig.url, device('lamp').activation);
    devices['lamp'] = again;
    await untilStates({ 'switch.lamp': 'on' });
    await home.call('switch', 'turn_off', { entity_id: 'switch.lamp' });
    await untilStates({ 'switch.lamp': 'off' });
    expect(again.commands).toHaveLength(1);
    const complaints = home.log.split('\n').filter((line) => / (ERROR|WARNING) .*mqtt/i.test(line));
    expect(
      complaints.filter((line) => !/connection was lost|Failed to connect|not currently connected/.test(line)),
    ).toEqual([]);
  });

  it('ends with its key', async () => {
    await dataOf(service.rig.owner.api.users['api-keys'][':keyId'].$delete({ param: { keyId: key.keyId } }));
    await untilStates({ 'switch.lamp': 'unavailable' });
  });
});
