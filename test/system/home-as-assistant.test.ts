// A home as Home Assistant sees it: home-assistant-client.py, which does as its MQTT client does, at the built Worker without a broker,
// in both versions of MQTT at once. A complaint of the program names a rule of Home Assistant that is broken.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { homeClientMissing, pythonWithPaho } from '../../rig/brokers/foreign-clients.ts';
import { Changes } from '../../rig/changes.ts';
import { activate, addProduct, signUp, type Session } from '../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../rig/clients/api.ts';
import { makeHomeKey, type HomeKey } from '../../rig/clients/home-client.ts';
import { SwitchDevice } from '../../rig/clients/switch-device.ts';
import type { GatewayProcess } from '../../rig/services/processes.ts';
import { WholeService } from '../../rig/services/whole-service.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';
import { workerVars } from '../../rig/worker/worker-rig.ts';

const program = 'test/system/home-assistant-client.py';
type Entity = { state: string; attributes: Record<string, unknown> };
type Shown = { entities: Record<string, Entity>; complaints: string[]; isReady: boolean };

/** An account with devices, and the program at its home. */
class Scene {
  readonly #service: WholeService<GatewayProcess>;
  readonly #owner: Session;
  readonly #version: string;
  readonly #registry = join(makeTempDir('registry'), 'registry.json');
  readonly #devices = new Map<string, SwitchDevice>();
  readonly #changes = new Changes();
  #key: HomeKey | undefined;
  #program: ChildProcess | undefined;
  history: Shown[] = [];

  constructor(service: WholeService<GatewayProcess>, owner: Session, version: string) {
    this.#service = service;
    this.#owner = owner;
    this.#version = version;
  }

  get routes() {
    return this.#owner.api.devices[':deviceId'];
  }

  get shown(): Shown {
    return this.history.at(-1) ?? { entities: {}, complaints: [], isReady: false };
  }

  async make(name: string, product: Parameters<typeof addProduct>[1], reported: Record<string, unknown>) {
    const productKey = await addProduct(this.#owner, { ...product, offlineGraceSeconds: 0 });
    const activation = await activate(this.#owner.api, productKey, name, { firmwareVersion: '1.4.2' });
    await this.connect(name, activation);
    await dataOf(this.routes.$patch({ ...this.param(name), json: { name } }));
    await this.device(name).report(reported);
  }

  async connect(name: string, activation = this.device(name).activation): Promise<void> {
    this.#devices.set(name, await SwitchDevice.connect(this.#service.rig.url, activation));
  }

  device(name: string): SwitchDevice {
    const found = this.#devices.get(name);
    if (found === undefined) throw new Error(`no device ${name}`);
    return found;
  }

  param(name: string) {
    return { param: { deviceId: this.device(name).deviceId } };
  }

  /** The program keeps its registry from one start to the next. */
  async start(): Promise<void> {
    this.#key ??= await makeHomeKey(this.#owner.api);
    const { keyId: username, apiKey: password } = this.#key;
    const setup = { version: this.#version, registry: this.#registry, username, password };
    const more = { port: this.#service.rig.port, path: '/mqtt/home' };
    const options = [program, JSON.stringify({ ...setup, ...more })];
    const child = spawn(pythonWithPaho, options, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#program = child;
    this.history = [];
    createInterface({ input: child.stdout }).on('line', (line) => {
      this.history.push(JSON.parse(line) as Shown);
      this.#changes.note();
    });
    await this.until('discovery and birth', () => this.shown.isReady);
  }

  async stop(): Promise<void> {
    const child = this.#program;
    if (child === undefined || child.exitCode !== null) return;
    child.stdin?.end();
    await once(child, 'exit');
  }

  async leave(): Promise<void> {
    await this.stop();
    for (const device of this.#devices.values()) await device.leave();
  }

  /** @param entity as `lamp.switch` */
  find(entity: string, { entities } = this.shown): Entity | undefined {
    const [name = '', part] = entity.split('.');
    return entities[`latchwork_${this.device(name).deviceId}_${part}`];
  }

  order(entity: string, service: string, value?: unknown): void {
    const [name = '', part] = entity.split('.');
    const order = { unique_id: `latchwork_${this.device(name).deviceId}_${part}`, service, value };
    this.#program?.stdin?.write(`${JSON.stringify(order)}\n`);
  }

  /** Or a complaint, which fails the test. */
  async until(what: string, isSo: () => boolean): Promise<void> {
    const describeIt = () => `${what} (${this.#version}); it shows ${JSON.stringify(this.shown, null, 1)}`;
    await this.#changes.until(describeIt, () => this.shown.complaints.length > 0 || isSo());
    expect(this.shown.complaints).toEqual([]);
  }

  async untilStates(expected: Record<string, string | undefined>): Promise<void> {
    const wanted = Object.entries(expected);
    await this.until(JSON.stringify(expected), () =>
      wanted.every(([entity, state]) => this.find(entity)?.state === state),
    );
  }
}

describe.skipIf(homeClientMissing !== null)('as Home Assistant', () => {
  const scenes: Scene[] = [];
  let service: WholeService<GatewayProcess>;
  const inBoth = async (check: (scene: Scene) => Promise<void>) => void (await Promise.all(scenes.map(check)));

  beforeAll(async () => {
    const LIMITS = `${workerVars.LIMITS},directReconnectGraceSeconds=2`;
    service = await WholeService.startWithGateway({ LIMITS });
    for (const version of ['3.1.1', '5']) {
      const owner = await signUp((credentials) => connectApi(service.rig.url, credentials));
      scenes.push(new Scene(service, owner, version));
    }
    await inBoth(async (scene) => {
      await Promise.all([
        scene.make('lamp', { uiTemplate: 'two_position' }, { position: 'down', wifi_rssi: -61 }),
        scene.make('lever', {}, { position: 'middle' }),
        scene.make('bot', { controlMode: 'pulse' }, { power: 0 }),
        scene.make('dimmer', { controlMode: 'dimmer' }, { angle: 30 }),
        scene.make('meter', { controlMode: 'readonly' }, { position: 'up' }),
        scene.make('all', { controlMode: 'generic' }, {}),
      ]);
      const by = { property: 'power', operator: '>' as const, value: 5 };
      const witness = { expect: 'on' as const, by, withinSeconds: 5, then: 'nothing' as const };
      await dataOf(scene.routes.witness.$put({ ...scene.param('bot'), json: witness }));
      await scene.device('bot').report({ power: 1 });
      await scene.start();
    });
  });
  afterAll(async () => {
    await inBoth((scene) => scene.leave());
    await service.stop();
  });

  it('every kind of product stands there, with what it reported and nothing else', () =>
    inBoth(async (scene) => {
      await scene.untilStates({
        ...{ 'lamp.switch': 'off', 'lamp.rssi': '-61', 'lamp.firmware': '1.4.2', 'lamp.outcome': 'unknown' },
        ...{ 'lever.position': 'middle', 'lever.rssi': 'unknown', 'bot.pulse': 'unknown', 'bot.trigger': 'unknown' },
        ...{ 'bot.actual': 'off', 'dimmer.angle': '30', 'meter.reported': 'up', 'meter.switch': undefined },
        ...{ 'all.position': 'unknown', 'all.angle': 'unknown', 'all.pulse': 'unknown', 'lever.actual': undefined },
      });
      expect(scene.find('lamp.switch')?.attributes).toEqual({ friendly_name: 'lamp' });
    }));

  it('orders travel, and nothing is shown that was only asked', () =>
    inBoth(async (scene) => {
      const [lamp, bot] = [scene.device('lamp'), scene.device('bot')];
      scene.order('lamp.switch', 'turn_on');
      await scene.untilStates({ 'lamp.switch': 'on', 'lamp.outcome': 'confirmed' });
      expect(lamp.commands.map(({ params }) => params)).toEqual([{ action: 'toggle', position: 'up' }]);
      expect(scene.find('lamp.outcome')?.attributes).toMatchObject({ reason: null, command: 'toggle position up' });
      scene.order('lever.position', 'select', 'down');
      scene.order('dimmer.angle', 'number', 120);
      scene.order('all.trigger', 'press');
      await scene.untilStates({ 'lever.position': 'down', 'dimmer.angle': '120', 'all.outcome': 'acknowledged' });
      await lamp.report({ position: 'middle' });
      await scene.untilStates({ 'lamp.switch': 'unknown' });
      await lamp.report({ position: 'down' });
      await scene.untilStates({ 'lamp.switch': 'off' });
      lamp.behaviour = 'refuses';
      const since = scene.history.length;
      scene.order('lamp.switch', 'turn_on');
      scene.order('bot.actual', 'turn_on');
      await scene.untilStates({ 'lamp.outcome': 'failed' });
      expect(scene.find('lamp.outcome')?.attributes).toMatchObject({ reason: 'device replied 500' });
      await scene.untilStates({ 'bot.outcome': 'acknowledged' });
      const states = scene.history
        .slice(since)
        .flatMap((shown) => [scene.find('lamp.switch', shown)?.state, scene.find('bot.actual', shown)?.state]);
      expect([...new Set(states)]).toEqual(['off']);
      expect(bot.commands.map(({ params }) => params)).toEqual([{ action: 'pulse' }]);
      await bot.report({ power: 60 });
      await scene.untilStates({ 'bot.actual': 'on' });
    }));

  it('presence, names and removals follow', () =>
    inBoth(async (scene) => {
      await scene.device('lever').leave();
      await scene.untilStates({ 'lever.position': 'unavailable', 'dimmer.angle': '120' });
      await dataOf(scene.routes.$patch({ ...scene.param('lever'), json: { name: 'Big lever' } }));
      const nameOf = (entity: string) => scene.find(entity)?.attributes['friendly_name'];
      await scene.until('the new name', () => nameOf('lever.position') === 'Big lever Position');
      await dataOf(scene.routes.witness.$delete(scene.param('bot')));
      await scene.untilStates({ 'bot.actual': undefined, 'bot.pulse': 'unknown' });
      await dataOf(scene.routes.$delete(scene.param('lever')));
      await scene.untilStates({ 'lever.position': undefined, 'lever.outcome': undefined });
    }));

  it('what went while it was away is gone when it is back', () =>
    inBoth(async (scene) => {
      await scene.stop();
      await scene.device('dimmer').report({ angle: 90 });
      await dataOf(scene.routes.$delete(scene.param('meter')));
      await scene.start();
      expect(scene.find('meter.reported', scene.history[0])?.state).toBe('unavailable');
      await scene.untilStates({ 'dimmer.angle': '90', 'meter.reported': undefined, 'meter.firmware': undefined });
    }));

  it('is there again after a restart of the Worker', async () => {
    await service.rig.restartWorker('kill');
    await inBoth(async (scene) => {
      await scene.untilStates({ 'dimmer.angle': 'unavailable', 'lamp.switch': 'unavailable' });
      await scene.connect('dimmer');
      await scene.untilStates({ 'dimmer.angle': '90', 'lamp.switch': 'unavailable' });
      scene.order('dimmer.angle', 'number', 45);
      await scene.untilStates({ 'dimmer.angle': '45' });
    });
  });

  it.each([
    ['a component without a platform', { p: undefined }, {}, /^\S+ part: platform must be /],
    ['a member that there is not', { position: 'up' }, {}, /^\S+ part: position must be left out/],
    ['a select without options', { ops: undefined }, {}, /^\S+ part: options is required$/],
    ['an option that is not offered', {}, { position: 'middle' }, /^id: state cannot be read: /],
    ['a member of the state that is missing', {}, {}, /^id: state cannot be read: .*no attribute 'position'$/],
  ])('the program complains of %s', (_, change, state, complaint) => {
    const select = {
      p: 'select',
      uniq_id: 'id',
      stat_t: 's',
      cmd_t: 'c',
      ops: ['up'],
      val_tpl: '{{ value_json.position }}',
    };
    const config = { dev: { ids: ['a'] }, o: { name: 'Test' }, cmps: { part: { ...select, ...change } } };
    const messages = { 'homeassistant/device/a/config': config, s: state };
    const lines = Object.entries(messages).map(([topic, body]) => JSON.stringify([topic, JSON.stringify(body)]));
    const { stdout } = spawnSync(pythonWithPaho, [program, '--check'], { input: lines.join('\n'), encoding: 'utf8' });
    expect((JSON.parse(stdout) as Shown).complaints[0]).toMatch(complaint);
  });
});
