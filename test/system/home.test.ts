// A home over real sockets: the built Worker without a broker, the production gateway, mqtt.js in both versions, and devices that obey,
// refuse or keep silent.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  addProduct,
  activate,
  activateMany,
  sendCommand,
  signUp,
  type Activation,
} from '../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../rig/clients/api.ts';
import { HomeClient, makeHomeKey, type HomeKey } from '../../rig/clients/home-client.ts';
import { refusalOf } from '../../rig/clients/mqtt-client.ts';
import { SwitchDevice } from '../../rig/clients/switch-device.ts';
import type { GatewayProcess } from '../../rig/services/processes.ts';
import { WholeService } from '../../rig/services/whole-service.ts';
import { homeLimits } from '../../src/domain/home/clients.ts';
import { workerVars } from '../../rig/worker/worker-rig.ts';

let service: WholeService<GatewayProcess>;
let key: HomeKey;
const closing: { leave: () => Promise<void> }[] = [];

beforeAll(async () => {
  // A Worker that was killed forgets its devices' connections sooner.
  const LIMITS = `${workerVars.LIMITS},directReconnectGraceSeconds=2`;
  service = await WholeService.startWithGateway({ LIMITS });
  key = await makeHomeKey(service.rig.owner.api);
});
afterEach(async () => {
  for (const client of closing.splice(0)) await client.leave();
});
afterAll(() => service.stop());

const homeUrl = () => `${service.directUrl}/home`;
async function open(given = key, options: Parameters<typeof HomeClient.open>[2] = {}, url = homeUrl()) {
  const client = await HomeClient.open(url, given, options);
  closing.push(client);
  return client;
}
async function connectSwitch(activation: Activation): Promise<SwitchDevice> {
  const device = await SwitchDevice.connect(service.rig.url, activation);
  closing.push(device);
  return device;
}
const makeSwitch = async (serial: string) => connectSwitch(await service.rig.activate(serial));
const param = ({ deviceId }: { deviceId: string }) => ({ param: { deviceId } });
const componentsOf = (client: HomeClient, deviceId: string) =>
  (client.last(deviceId, 'config') as { cmps: Record<string, Record<string, unknown>> }).cmps;
const shown = (client: HomeClient, deviceId: string) =>
  Object.entries(componentsOf(client, deviceId)).flatMap(([part, component]) => ('uniq_id' in component ? [part] : []));

describe.each([4, 5] as const)('with MQTT level %i', (protocolVersion) => {
  it.each(['WebSocket', 'gateway'])('over %s: discovery and state stand there, a press travels', async (way) => {
    const device = await makeSwitch(`travel-${protocolVersion}-${way}`);
    const { deviceId } = device;
    await device.report({ position: 'down', wifi_rssi: -61 });
    const home = await open(key, { protocolVersion }, way === 'gateway' ? service.rig.mqttUrl : homeUrl());
    await home.follow();
    await home.untilState(deviceId, { position: 'down', rssi: -61, outcome: null });
    expect(home.last(deviceId, 'availability')).toBe('online');
    expect(home.mqtt.heard.every(({ retain }) => retain)).toBe(true);
    expect(shown(home, deviceId)).toEqual(['position', 'rssi', 'firmware', 'outcome']);
    await home.order(deviceId, 'set', 'up');
    await home.untilState(deviceId, { position: 'up', outcome: 'confirmed' });
    expect(home.mqtt.heard.at(-1)?.retain).toBe(false);
    expect((await device.untilCommanded())[0]?.params).toEqual({ action: 'toggle', position: 'up' });
    const { list } = await dataOf(
      service.rig.owner.api.devices[':deviceId'].commands.$get({ query: {}, ...param(device) }),
    );
    expect(list[0]?.givenBy).toMatchObject({ withKey: true, via: 'home' });
    await device.leave();
    await home.until('offline', () => home.last(deviceId, 'availability') === 'offline');
  });
});

it('a press that fails shows in the outcome: refused by the device, unanswered, away, or by the service', async () => {
  const device = await makeSwitch('fails');
  const { deviceId } = device;
  const home = await open();
  await home.follow();
  await home.until('discovery', () => home.last(deviceId, 'state') !== undefined);
  device.behaviour = 'refuses';
  await home.order(deviceId, 'set', 'up');
  await home.untilState(deviceId, { position: null, outcome: 'failed' });
  expect(home.last(deviceId, 'state')).toMatchObject({
    outcome_detail: { reason: 'device replied 500', command: 'toggle position up' },
  });
  device.behaviour = 'silent';
  await home.order(deviceId, 'set', 'down');
  await home.untilState(deviceId, { outcome: 'expired' });
  await home.order(deviceId, 'set', 'sideways');
  await home.untilState(deviceId, { outcome: 'refused' });
  expect(home.last(deviceId, 'state')).toMatchObject({ outcome_detail: { command: 'set sideways' } });
  await device.leave();
  await home.until('offline', () => home.last(deviceId, 'availability') === 'offline');
  await home.order(deviceId, 'set', 'down');
  await home.untilState(deviceId, { outcome: 'undelivered' });
  // By somebody else.
  await connectSwitch(device.activation);
  await sendCommand(service.rig.owner.api, device, { action: 'toggle', position: 'middle' });
  await home.untilState(deviceId, { position: 'middle', outcome: 'confirmed' });
});

it('names, new devices and removals follow, also for a client that was away', async () => {
  const { owner } = service.rig;
  const stayed = await service.rig.activate('stayed');
  const home = await open(key, { clientId: 'follows' });
  await home.follow();
  await home.until('discovery', () => home.last(stayed.deviceId, 'config') !== undefined);
  const device = await makeSwitch('followed');
  await home.until('the new device', () => home.last(device.deviceId, 'state') !== undefined);
  await dataOf(owner.api.devices[':deviceId'].$patch({ ...param(device), json: { name: 'Hall light' } }));
  const nameOf = () => (home.last(device.deviceId, 'config') as { dev?: { name: string } } | null)?.dev?.name;
  await home.until('the new name', () => nameOf() === 'Hall light');
  await dataOf(owner.api.devices[':deviceId'].$delete(param(device)));
  await home.until('the removal', () => home.last(device.deviceId, 'config') === null);
  const moved = await makeSwitch('moved');
  await home.until('the other new device', () => home.last(moved.deviceId, 'state') !== undefined);
  await home.leave();
  await moved.report({ position: 'up' });
  await dataOf(owner.api.devices[':deviceId'].$delete(param(stayed)));
  const back = await open(key, { clientId: 'follows' });
  await back.follow();
  await back.untilState(moved.deviceId, { position: 'up' });
  const configs = () => back.mqtt.heard.filter(({ topic }) => topic.includes(stayed.deviceId));
  // Home Assistant takes back what it is told of anew.
  await back.until('discovery and removal', () => configs().length === 2);
  expect(configs().map(({ payload, retain }) => [payload === '', retain])).toEqual([
    [false, true],
    [true, false],
  ]);
});

it('what a product can do is what is shown: two positions, presses, an angle, a witness', async () => {
  const { owner, url } = service.rig;
  const make = async (product: Parameters<typeof addProduct>[1], serial: string) =>
    activate(connectApi(url), await addProduct(owner, product), serial);
  const two = await make({ uiTemplate: 'two_position' }, 'two');
  const bot = await make({ controlMode: 'pulse' }, 'bot');
  const dimmer = await make({ controlMode: 'dimmer' }, 'dimmer');
  const meter = await make({ controlMode: 'readonly' }, 'meter');
  const home = await open();
  await home.follow();
  const allThere = () => [two, bot, dimmer, meter].every(({ deviceId }) => home.last(deviceId, 'config') !== undefined);
  await home.until('all devices', allThere);
  expect(shown(home, two.deviceId)).toEqual(['switch', 'rssi', 'firmware', 'outcome']);
  expect(shown(home, bot.deviceId)).toEqual(['pulse', 'trigger', 'rssi', 'firmware', 'outcome']);
  expect(shown(home, dimmer.deviceId)).toEqual(['angle', 'rssi', 'firmware', 'outcome']);
  expect(shown(home, meter.deviceId)).toEqual(['reported', 'rssi', 'firmware', 'outcome']);

  const pressed = await connectSwitch(bot);
  await home.order(bot.deviceId, 'press', 'pulse');
  await home.untilState(bot.deviceId, { outcome: 'acknowledged' });
  const turned = await connectSwitch(dimmer);
  await home.order(dimmer.deviceId, 'set', '90');
  await home.untilState(dimmer.deviceId, { angle: 90, outcome: 'confirmed' });
  expect((await turned.untilCommanded())[0]?.params).toEqual({ angle: 90 });

  const by = { property: 'power', operator: '>' as const, value: 5 };
  const witness = { expect: 'on' as const, by, withinSeconds: 5, then: 'nothing' as const };
  await dataOf(owner.api.devices[':deviceId'].witness.$put({ ...param(bot), json: witness }));
  await home.until('the witness', () => shown(home, bot.deviceId).includes('actual'));
  await pressed.report({ power: 0 });
  await home.untilState(bot.deviceId, { actual: 'off' });
  await home.order(bot.deviceId, 'set', 'on');
  expect((await pressed.untilCommanded(2))[1]?.params).toEqual({ action: 'pulse' });
  await pressed.report({ power: 60 });
  await home.untilState(bot.deviceId, { actual: 'on' });
  await dataOf(owner.api.devices[':deviceId'].witness.$delete(param(bot)));
  await home.until('its end', () => !shown(home, bot.deviceId).includes('actual'));
  expect(componentsOf(home, bot.deviceId)['actual']).toEqual({ p: 'switch' });
});

describe('who may do what', () => {
  const refused = { 4: { key: /^code [45]$/, will: /^code 5$/ }, 5: { key: /^code 13[45]$/, will: /^code 135$/ } };

  it.each([4, 5] as const)(
    'level %i: a wrong value, a deleted key, a foreign will are refused',
    async (protocolVersion) => {
      const { owner } = service.rig;
      const gone = await makeHomeKey(owner.api);
      await dataOf(owner.api.users['api-keys'][':keyId'].$delete({ param: { keyId: gone.keyId } }));
      const login = { username: key.keyId, password: key.apiKey, protocolVersion };
      const answer = (change: object) => refusalOf(homeUrl(), { ...login, ...change });
      const will = (topic: string) => ({ topic, payload: Buffer.from('offline'), qos: 0 as const, retain: false });
      expect(await answer({})).toBe('accepted');
      expect(await answer({ will: will('homeassistant/status') })).toBe('accepted');
      expect(await answer({ password: gone.apiKey })).toMatch(refused[protocolVersion].key);
      expect(await answer({ username: gone.keyId, password: gone.apiKey })).toMatch(refused[protocolVersion].key);
      expect(await answer({ username: owner.email, password: owner.password })).toMatch(refused[protocolVersion].key);
      expect(await answer({ will: will('latchwork/bridge/state') })).toMatch(refused[protocolVersion].will);
      const writer = await makeHomeKey(owner.api, { scopes: ['control'] });
      expect(await answer({ username: writer.keyId, password: writer.apiKey })).toMatch(refused[protocolVersion].will);
    },
  );

  it('subscriptions stay within the home', async () => {
    const home = await open();
    for (const filter of ['#', '+/#', '+/status', '/sys/#', '$SYS/#', '$share/a/latchwork/#', 'zigbee2mqtt/#']) {
      expect(await home.mqtt.trySubscribe(filter), filter).toBe(false);
    }
    for (const filter of ['homeassistant/switch/+/config', 'latchwork/+/state', 'homeassistant/#']) {
      expect(await home.mqtt.trySubscribe(filter), filter).toBe(true);
    }
  });

  it.each([
    ['state of a device', 'latchwork/dev_8k2m4n6p/state', false],
    ['discovery', 'homeassistant/device/latchwork_dev_8k2m4n6p/config', false],
    ['topics of devices', '/sys/servo/dev_8k2m4n6p/thing/service/property/set', false],
    ['retained orders', 'latchwork/dev_8k2m4n6p/set', true],
  ])('publishing %s ends the session', async (_, topic, retain) => {
    const home = await open();
    const published = Promise.allSettled([home.mqtt.client.publishAsync(topic, 'up', { qos: 1, retain })]);
    await home.mqtt.untilClosed();
    await home.leave();
    await published;
  });

  it("another home's devices are neither seen nor moved", async () => {
    const device = await makeSwitch('mine');
    await device.report({ position: 'up' });
    const other = await signUp((credentials) => connectApi(service.rig.url, credentials));
    const foreign = await open(await makeHomeKey(other.api), { protocolVersion: 5 });
    await foreign.follow(['latchwork/bridge/state', `latchwork/${device.deviceId}/#`, 'homeassistant/#']);
    await expect(foreign.order(device.deviceId, 'set', 'down')).rejects.toMatchObject({ code: 0x87 });
    await foreign.until('the home itself', () => foreign.mqtt.heard.length > 0);
    expect(foreign.mqtt.heard.map(({ topic }) => topic)).toEqual(['latchwork/bridge/state']);
    expect(device.commands).toEqual([]);
  });

  it('a key without control sees and does not move', async () => {
    const device = await makeSwitch('seen');
    await device.report({ position: 'up' });
    const home = await open(await makeHomeKey(service.rig.owner.api, { scopes: ['read'] }), { protocolVersion: 5 });
    await home.follow();
    await home.untilState(device.deviceId, { position: 'up' });
    expect(shown(home, device.deviceId)).toEqual(['reported', 'rssi', 'firmware', 'outcome']);
    await expect(home.order(device.deviceId, 'set', 'down')).rejects.toMatchObject({ code: 0x87 });
    await home.untilState(device.deviceId, { outcome: 'refused' });
    expect(device.commands).toEqual([]);
  });

  it('a key for one device knows no other, on any path', async () => {
    const { owner, url } = service.rig;
    const [one, other] = [await makeSwitch('one'), await makeSwitch('other')];
    const only = await makeHomeKey(owner.api, { deviceIds: [one.deviceId] });
    const home = await open(only);
    await home.follow();
    await other.report({ position: 'up' });
    await one.report({ position: 'up' });
    await home.untilState(one.deviceId, { position: 'up' });
    expect(home.mqtt.heard.some(({ topic }) => topic.includes(other.deviceId))).toBe(false);
    const api = connectApi(url, only);
    const { list, total } = await dataOf(api.devices.$get({ query: {} }));
    expect([list.map(({ deviceId }) => deviceId), total]).toEqual([[one.deviceId], 1]);
    await expect(dataOf(api.devices[':deviceId'].status.$get(param(other)))).rejects.toThrow('forbidden');
    await expect(dataOf(api.products.$get({ query: {} }))).resolves.toMatchObject({ list: [] });
  });

  it('a key that is deleted ends its clients', async () => {
    const { owner } = service.rig;
    const short = await makeHomeKey(owner.api);
    const homes = [await open(short), await open(short, { protocolVersion: 5 })];
    await dataOf(owner.api.users['api-keys'][':keyId'].$delete({ param: { keyId: short.keyId } }));
    for (const home of homes) await home.mqtt.untilClosed();
  });
});

describe('limits', () => {
  it('a fifth client is refused, and the same client id takes over', async () => {
    const own = await makeHomeKey(service.rig.owner.api);
    const names = ['a', 'b', 'c', 'd'];
    const four = await Promise.all(names.map((clientId) => open(own, { clientId })));
    const login = { username: own.keyId, password: own.apiKey, clientId: 'e' };
    expect(await refusalOf(homeUrl(), { ...login, protocolVersion: 4 })).toBe('code 3');
    expect(await refusalOf(homeUrl(), { ...login, protocolVersion: 5 })).toBe('code 151');
    await open(own, { clientId: 'a' });
    await four[0]?.mqtt.untilClosed();
  });

  it('orders beyond 20 a second are refused and said so', async () => {
    const device = await makeSwitch('flood');
    const own = await makeHomeKey(service.rig.owner.api);
    const home = await open(own, { protocolVersion: 5 });
    await home.follow();
    await home.until('discovery', () => home.last(device.deviceId, 'state') !== undefined);
    const orders = Array.from({ length: 60 }, () => home.order(device.deviceId, 'set', 'up'));
    const refusals = (await Promise.allSettled(orders)).filter(({ status }) => status === 'rejected');
    expect(refusals).toContainEqual(
      expect.objectContaining({ reason: expect.objectContaining({ code: 0x97 }) as unknown }),
    );
  });

  it('the 500 newest devices come paced, each once', async () => {
    const { url } = service.rig;
    let addresses = 0;
    // A network may have 200 devices that were never online.
    const elsewhere: typeof fetch = (input, init) => {
      const headers = new Headers(init?.headers);
      headers.set('CF-Connecting-IP', `100.64.${addresses >> 7}.1`);
      addresses += 1;
      return fetch(input, { ...init, headers });
    };
    const owner = await signUp((credentials) => connectApi(url, credentials));
    const productKey = await addProduct(owner);
    const serials = Array.from({ length: homeLimits.devices + 1 }, (_, index) => `many-${index}`);
    const made = await activateMany(connectApi(url, undefined, elsewhere), productKey, serials);
    const home = await open(await makeHomeKey(owner.api));
    await home.follow();
    const isShown = ({ deviceId }: Activation) => home.last(deviceId, 'state') !== undefined;
    await home.until('500 devices', () => made.filter(isShown).length >= homeLimits.devices);
    const configs = home.mqtt.heard.filter(({ topic }) => topic.endsWith('/config'));
    expect([configs.length, made.filter(isShown).length]).toEqual([homeLimits.devices, homeLimits.devices]);
    // There is no room for one that comes to life later.
    const left = made.find((one) => !isShown(one));
    const other = made.find(isShown);
    if (left === undefined || other === undefined) throw new Error('all devices are shown');
    const late = await connectSwitch(left);
    await late.report({ position: 'up' });
    await home.order(other.deviceId, 'set', 'up');
    await home.untilState(other.deviceId, { outcome: 'undelivered' });
    expect(isShown(left)).toBe(false);
  });
});

it('survives a restart of the Worker: the client comes back and sees what is true', async () => {
  const device = await makeSwitch('restart');
  await device.report({ position: 'up' });
  const home = await open();
  await home.follow();
  await home.untilState(device.deviceId, { position: 'up' });
  await service.rig.restartWorker('kill');
  await home.mqtt.untilClosed();
  const back = await open();
  await back.follow();
  await back.untilState(device.deviceId, { position: 'up' });
  await back.until('offline', () => back.last(device.deviceId, 'availability') === 'offline');
  const again = await connectSwitch(device.activation);
  await back.until('online', () => back.last(device.deviceId, 'availability') === 'online');
  await back.order(device.deviceId, 'set', 'middle');
  await back.untilState(device.deviceId, { position: 'middle' });
  expect(again.commands).toHaveLength(1);
});
