// The user's two-position switches as the service knows them: the list over HTTP, changes over the relay, and presses. Shows
// what devices reported, and never what was asked of them. Knows no Matter.
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, createClient, dataOf, NoAnswerError, Relay, runCommand } from '../../client/src/index.ts';
import type { Client, Data, RelayMessage, RelayState } from '../../client/src/index.ts';
import { createBackOff } from '../../node-service/back-off.ts';
import { describeError, type Log } from '../../node-service/log.ts';
import type { MatterConfig } from './config.ts';

export type Switch = {
  deviceId: string;
  name: string;
  productName: string;
  /** False also while the service cannot be heard. */
  isReachable: boolean;
  /** Undefined until the device has reported up or down. */
  isOn: boolean | undefined;
};

/** `show` is called for a new switch, and if something of it may have changed. */
type Display = { show: (device: Switch) => Promise<void>; remove: (deviceId: string) => Promise<void> };

type Page = Data<Client['devices']['$get']>;
type Device = Page['list'][number];
/** `reports` counts the reports of up and down. */
type Reported = { isOnline?: boolean; isOn?: boolean | undefined; reports: number };

/** Controllers wait little longer before they show an error of their own. */
const confirmWithinMs = 5_000;
/** A relay that is there is connected again within 30 s. */
const unheardAfterMs = 35_000;
const shortestLeaseSeconds = 5;
const positions: Partial<Record<string, boolean>> = { up: true, down: false };

export class Fleet {
  /** The service no longer accepts the API key. */
  onRefused: (why: string) => void = () => undefined;
  readonly #config: MatterConfig;
  readonly #api: Client;
  readonly #display: Display;
  readonly #log: Log;
  readonly #backOff = createBackOff({ baseMs: 2_000, capMs: 60_000 });
  readonly #devices = new Map<string, Device>();
  /** A report may come before its device is read. */
  readonly #reported = new Map<string, Reported>();
  #relay: Relay | undefined;
  #isHeard = true;
  #unheardTimer: NodeJS.Timeout | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  /** One step after the other: an older answer never replaces a newer one. */
  #work = Promise.resolve();

  constructor(config: MatterConfig, display: Display, log: Log) {
    this.#config = config;
    this.#api = createClient(config.serviceUrl, { credentials: config.credentials });
    this.#display = display;
    this.#log = log;
  }

  state(): { isReady: boolean; details: { devices: number } } {
    const devices = [...this.#devices.values()].filter(isOffered).length;
    return { isReady: this.#relay?.state === 'open', details: { devices } };
  }

  /** Shows every switch. Waits for a service that cannot be reached. @throws Error if the API key will not do */
  async read(): Promise<void> {
    for (;;) {
      try {
        await this.#checkKey();
        await this.#readAll();
        break;
      } catch (error) {
        this.#sayUnread(error);
        await sleep(this.#backOff.nextDelayMs());
      }
    }
    const offered = this.state().details.devices;
    const notOffered = this.#devices.size - offered;
    this.#log.info('devices are read: only switches with two positions are offered', { offered, notOffered });
  }

  /** From here on changes are shown. */
  follow(): void {
    const { serviceUrl, credentials: login } = this.#config;
    this.#relay = new Relay(serviceUrl, { login, onState: (state, why) => this.#onRelayState(state, why) });
    this.#relay.subscribe('/sys/+/+/#', {
      snapshot: true,
      onMessage: (message) => this.#onMessage(message),
      onActive: () => {
        clearTimeout(this.#unheardTimer);
        this.#unheardTimer = undefined;
        this.#isHeard = true;
        this.#inTurn(() => this.#readAll());
      },
      onRefused: ({ message }) => this.onRefused(message),
    });
  }

  /** For a time unless `seconds` is 0. @returns what the device reported last @throws Error unless it did what it was told */
  async press(deviceId: string, isOn: boolean, seconds = 0): Promise<boolean> {
    const toggle = { action: 'toggle', position: isOn ? 'up' : 'down' } as const;
    const then = { action: 'toggle', position: isOn ? 'down' : 'up' } as const;
    const lease = { seconds: Math.max(seconds, shortestLeaseSeconds), then };
    const { reports } = this.#reportedOf(deviceId);
    const sent = runCommand(this.#api, deviceId, seconds === 0 ? toggle : { ...toggle, lease }, { until: 'confirmed' });
    const late = sleep(confirmWithinMs, 'no report showed it in time', { ref: false });
    const outcome = await Promise.race([sent.then(({ state }) => state, describeError), late]);
    if (outcome !== 'confirmed') {
      this.#log.warn('a press is not confirmed', { deviceId, isOn, outcome });
      throw new Error(outcome);
    }
    const reported = this.#reportedOf(deviceId);
    // The relay has not brought the report that confirmed it.
    if (reported.reports === reports) reported.isOn = isOn;
    return reported.isOn ?? isOn;
  }

  async stop(): Promise<void> {
    this.#relay?.close();
    clearTimeout(this.#unheardTimer);
    clearTimeout(this.#retryTimer);
    await this.#work;
  }

  async #checkKey(): Promise<void> {
    const { devices } = this.#api;
    const read = await devices.$get({ query: { size: '1' } });
    // There is no such command, but only a key that may control is told so.
    const param = { deviceId: 'dev_00000000', commandId: 'none' };
    const control = await devices[':deviceId'].commands[':commandId'].$delete({ param });
    if (read.status === 401) throw new Error('the service refuses API_KEY_ID and API_KEY: make a new API key');
    const lacking = Object.entries({ read, control }).find(([, answer]) => answer.status === 403)?.[0];
    if (lacking !== undefined) throw new Error(`the API key lacks the scope ${lacking}: it needs read and control`);
  }

  async #readAll(): Promise<void> {
    const listed = new Set<string>();
    for (let after: string | null = ''; after !== null;) {
      const page: Page = await dataOf(this.#api.devices.$get({ query: { after, size: '100' } }));
      for (const device of page.list) {
        listed.add(device.deviceId);
        await this.#take(device);
      }
      after = page.next ?? null;
    }
    for (const deviceId of this.#devices.keys()) if (!listed.has(deviceId)) await this.#drop(deviceId);
    this.#backOff.failures = 0;
  }

  async #readOne(deviceId: string): Promise<void> {
    const read = this.#api.devices[':deviceId'].$get({ param: { deviceId } });
    const device = await dataOf(read).catch((error: unknown) => {
      if (!(error instanceof ApiError) || ![403, 404].includes(error.code)) throw error;
    });
    await (device === undefined ? this.#drop(deviceId) : this.#take(device));
  }

  async #take(device: Device): Promise<void> {
    const { deviceId } = device;
    const isNew = !this.#devices.has(deviceId);
    if (!isOffered(device)) await this.#drop(deviceId);
    this.#devices.set(deviceId, device);
    // The relay sends no snapshot of a device that became the user's since.
    if (isNew && isOffered(device) && this.#relay !== undefined) {
      const view = await dataOf(this.#api.devices[':deviceId'].status.$get({ param: { deviceId } }));
      const read = { isOnline: view.online, isOn: positions[view.position ?? ''], reports: 0 };
      this.#reported.set(deviceId, { ...read, ...this.#reported.get(deviceId) });
    }
    await this.#show(deviceId);
  }

  async #drop(deviceId: string): Promise<void> {
    const known = this.#devices.get(deviceId);
    this.#devices.delete(deviceId);
    this.#reported.delete(deviceId);
    if (known !== undefined && isOffered(known)) await this.#display.remove(deviceId);
  }

  async #show(deviceId: string): Promise<void> {
    const device = this.#devices.get(deviceId);
    if (device === undefined || !isOffered(device)) return;
    const { isOnline = device.status === 'online', isOn } = this.#reportedOf(deviceId);
    const isReachable = isOnline && this.#isHeard;
    await this.#display.show({ deviceId, name: device.name, productName: device.product.name, isReachable, isOn });
  }

  #onMessage({ topic, payload }: RelayMessage): void {
    const [, , , deviceId = '', ...levels] = topic.split('/');
    const kind = levels.join('/');
    const { status, params } = (payload ?? {}) as { status?: unknown; params?: { position?: unknown } | null };
    if (kind === 'status') this.#reportedOf(deviceId).isOnline = status === 'online';
    const isOn = kind === 'thing/event/property/post' ? positions[String(params?.position)] : undefined;
    if (isOn !== undefined) Object.assign(this.#reportedOf(deviceId), { isOn }).reports += 1;
    const isRead = this.#devices.has(deviceId) && kind !== 'record';
    this.#inTurn(() => (isRead ? this.#show(deviceId) : this.#readOne(deviceId)));
  }

  #reportedOf(deviceId: string): Reported {
    const reported = this.#reported.get(deviceId) ?? { reports: 0 };
    this.#reported.set(deviceId, reported);
    return reported;
  }

  #onRelayState(state: RelayState, why: string): void {
    this.#log[state === 'waiting' ? 'warn' : 'debug']('relay', { state, why });
    if (state !== 'waiting') return;
    this.#unheardTimer ??= setTimeout(() => {
      this.#isHeard = false;
      for (const deviceId of this.#devices.keys()) this.#inTurn(() => this.#show(deviceId));
    }, unheardAfterMs);
  }

  #inTurn(step: () => Promise<void>): void {
    this.#work = this.#work.then(step).catch((error: unknown) => {
      this.#sayUnread(error);
      clearTimeout(this.#retryTimer);
      this.#retryTimer = setTimeout(() => this.#inTurn(() => this.#readAll()), this.#backOff.nextDelayMs());
    });
  }

  /** @throws any error that is none of the service or the way to it */
  #sayUnread(error: unknown): void {
    if (!(error instanceof ApiError) && !(error instanceof NoAnswerError)) throw error;
    if (error instanceof ApiError && error.code === 401) this.onRefused(error.message);
    this.#log.warn('the service cannot be read', { cause: describeError(error) });
  }
}

function isOffered({ product, role, status }: Device): boolean {
  const hasTwoPositions = product.uiTemplate === 'two_position' && ['toggle', 'generic'].includes(product.controlMode);
  return hasTwoPositions && ['owner', 'operator'].includes(role) && status !== 'inactive';
}
