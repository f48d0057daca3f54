// A device in the page: activated over the interface, connected by MQTT over WebSocket to its own object, as real firmware
// is. The service does not know that it is not one. It is plugged in in one tab of the browser at a time. Its faults are those that
// support engineers look for. Behind it is a lamp that each press turns on or off, whose power is reported.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { signal } from '@preact/signals';
import { initialState, moveSwitch, type Position, type SwitchState } from './moves.ts';
import type { MqttClient } from './mqtt.ts';
import { takeUpdates, type UpdateFault } from './updates.ts';

export type SwitchLogin = Pick<Data<Client['devices']['activate']['$post']>, 'deviceId' | 'mqtt' | 'topics'>;
type SetCommand = { id: string; params: Record<string, unknown> };

const slowReplyMs = 3_000;
const reconnectEveryMs = 2_000;
const wattsOfLamp = 42;
const ignoredPress = 5;

export class VirtualSwitch {
  readonly deviceId: string;
  readonly connection = signal<'unplugged' | 'connecting' | 'connected' | 'refused' | 'elsewhere'>('unplugged');
  readonly lever = signal<SwitchState>(initialState);
  /** Replies and reports only after a while. */
  readonly isSlow = signal(false);
  /** Replies that it has obeyed, and does not move. */
  readonly isLying = signal(false);
  /** Replies with an error, and does not move. */
  readonly isRefusing = signal(false);
  /** What the lamp behind it takes, in watts. */
  readonly power = signal(0);
  /** Each fifth move of the lever does not press the lamp. */
  readonly isIgnored = signal(false);
  readonly version = signal('1.0.0');
  /** Of its next update. */
  readonly updateFault = signal<UpdateFault['name']>('none');
  #presses = 0;
  readonly #login: SwitchLogin;
  #client: MqttClient | null = null;
  #plug: AbortController | null = null;
  #isWanted = false;
  readonly #lock: string;
  #release: () => void = () => undefined;
  #nextId = 1;

  constructor(login: SwitchLogin) {
    this.deviceId = login.deviceId;
    this.#login = login;
    this.#lock = `latchwork.switch.${login.deviceId}`;
    this.#look();
    addEventListener('visibilitychange', () => this.#look());
  }

  /** @throws Error where the page's own files cannot be loaded */
  async plugIn(): Promise<void> {
    if (this.#isWanted) return;
    this.#isWanted = true;
    this.connection.value = 'connecting';
    if (!(await this.#claim())) {
      this.pullPlug();
      this.#look();
      return;
    }
    const { connect } = await import('./mqtt.ts');
    // Pulled again meanwhile.
    if (this.connection.peek() === 'connecting') this.#connect(connect);
  }

  /** Whether this tab has the switch from here on. Browsers have no locks on pages that are not secure. */
  #claim(): Promise<boolean> {
    if (!('locks' in navigator)) return Promise.resolve(true);
    return new Promise((resolve, reject) => {
      const hold = (lock: Lock | null) => {
        resolve(lock !== null);
        const isHeld = lock !== null && this.#isWanted;
        return isHeld ? new Promise<void>((release) => (this.#release = release)) : undefined;
      };
      navigator.locks.request(this.#lock, { ifAvailable: true }, hold).catch(reject);
    });
  }

  /** Shows that another tab has it, until that lets it go. */
  #look(): void {
    const look = async (): Promise<void> => {
      const { held = [] } = await navigator.locks.query();
      const isTaken = held.some(({ name }) => name === this.#lock);
      if (!isTaken || this.connection.peek() !== 'unplugged') return;
      this.connection.value = 'elsewhere';
      await navigator.locks.request(this.#lock, { mode: 'shared' }, () => undefined);
      this.connection.value = 'unplugged';
    };
    if ('locks' in navigator) look().catch((error: unknown) => console.info(this.#lock, error));
  }

  #connect(connect: typeof import('./mqtt.ts').connect): void {
    const { mqtt, topics } = this.#login;
    const client = connect(`${location.origin.replace(/^http/, 'ws')}/mqtt/${this.deviceId}`, {
      username: mqtt.username,
      password: mqtt.password,
      clientId: mqtt.clientId,
      keepalive: mqtt.keepAlive,
      protocolVersion: 4,
      resubscribe: false,
      // The others start a worker from a blob, which the page's policy refuses.
      timerVariant: 'native',
      reconnectPeriod: reconnectEveryMs,
    });
    this.#client = client;
    // One whose plug was pulled may still tell that it has connected, or could not subscribe.
    const isPulled = () => this.#client !== client;
    client.on('connect', () => {
      if (isPulled()) return;
      this.connection.value = 'connected';
      client.subscribe(topics.propertySet, { qos: 1 });
      this.#report({ power: this.power.value });
    });
    client.on('message', (topic, payload) => {
      if (topic === topics.propertySet) this.#obey(payload);
    });
    this.#plug = new AbortController();
    takeUpdates(client, {
      apiUrl: location.origin,
      topics: topics.status.replace(/status$/, 'thing/ota/'),
      version: this.version.value,
      takeFault: () => {
        const name = this.updateFault.value;
        this.updateFault.value = 'none';
        return { name };
      },
      leave: () => this.pullPlug(),
      signal: this.#plug.signal,
      onVersion: (version) => (this.version.value = version),
      onProblem: (error) => console.info('update', error),
    });
    client.on('close', () => {
      if (!isPulled() && this.connection.value === 'connected') this.connection.value = 'connecting';
    });
    // A refused login: the password was replaced, or the device is disabled or deleted.
    client.on('error', () => {
      if (!isPulled()) this.connection.value = 'refused';
    });
  }

  /** Without a word to the service: it has to notice. */
  pullPlug(): void {
    this.#isWanted = false;
    this.#plug?.abort();
    this.#client?.end(true);
    this.#client = null;
    this.#release();
    this.connection.value = 'unplugged';
  }

  /** Somebody presses the switch itself. */
  moveByHand(position: Position): void {
    this.#move({ action: 'toggle', position });
  }

  /** Somebody presses the lamp itself, past the switch. */
  pressLamp(): void {
    this.power.value = wattsOfLamp - this.power.value;
    // Without a time: by the clock of this computer the lamp might have been on before the command.
    this.#publish({
      method: 'thing.event.property.post',
      id: String(this.#nextId++),
      params: { power: this.power.value },
    });
  }

  #obey(payload: Uint8Array): void {
    const { id, params } = JSON.parse(new TextDecoder().decode(payload)) as SetCommand;
    const obey = (): void => {
      const move = moveSwitch(this.lever.value, params);
      this.#publish({
        method: 'thing.service.property.set_reply',
        id,
        code: this.isRefusing.value ? 500 : move === undefined ? 400 : 200,
      });
      if (!this.isLying.value && !this.isRefusing.value) this.#move(params);
    };
    if (this.isSlow.value) setTimeout(obey, slowReplyMs);
    else obey();
  }

  #move(params: Record<string, unknown>): void {
    const before = this.lever.value;
    const move = moveSwitch(before, params);
    if (move === undefined) return;
    this.lever.value = move.state;
    this.#report();
    if (move.state.angle !== before.angle) {
      this.#presses = this.isIgnored.value ? this.#presses + 1 : 0;
      if (this.#presses === 0 || this.#presses % ignoredPress !== 0) this.pressLamp();
    }
    if (move.backAfterMs === undefined) return;
    setTimeout(() => {
      this.lever.value = before;
      this.#report();
    }, move.backAfterMs);
  }

  #report(more: { power?: number } = {}): void {
    const { position, angle } = this.lever.value;
    const id = String(this.#nextId++);
    this.#publish({ method: 'thing.event.property.post', id, params: { position, angle, ...more }, time: Date.now() });
  }

  #publish(body: Record<string, unknown>): void {
    if (this.#client?.connected === true) {
      this.#client.publish(this.#login.topics.propertyPost, JSON.stringify(body), { qos: 1 });
    }
  }
}

/** Makes a device of the caller's own product for virtual switches, which is made with the first one. */
export async function makeSwitch(api: Client): Promise<SwitchLogin> {
  const { userId } = await dataOf(api.users.me.$get());
  const productKey = `virtual-switch-${userId}`;
  const { list } = await dataOf(api.products.$get({ query: { category: 'virtual' } }));
  if (!list.some((product) => product.productKey === productKey)) {
    const json = { productKey, name: 'Virtual switch', category: 'virtual', controlMode: 'toggle' } as const;
    await dataOf(api.products.$post({ json }));
  }
  const deviceSN = `VIRTUAL-${Math.random().toString(36).slice(2, 8).toUpperCase()}`;
  const { deviceId, mqtt, topics } = await dataOf(
    api.devices.activate.$post({ json: { productKey, deviceSN, firmwareVersion: 'console', chipModel: 'browser' } }),
  );
  return { deviceId, mqtt, topics };
}
