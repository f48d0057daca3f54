// A board in pairing mode, as a browser with Bluetooth sees it: `navigator.bluetooth` of the page is replaced, because no test
// machine has a radio. What it does with the configuration that it gets is real: it activates and connects. Asserts nothing.
import type { BrowserContext, Page } from 'playwright-core';
import { advertisedNamePrefixes, networkConfigSchema, provisioningService } from '../../src/protocol/provisioning.ts';
import { createVirtualDevice, type VirtualDevice } from '../../dev/virtual-device.ts';

type Behaviour = {
  productKey: string;
  serial: string;
  /** The password of the only network that there is. */
  wifiPassword: string;
  /** What the person does with the browser's list; `nothing`: it never shows anything, as with an adapter that is off. */
  choice?: 'chosen' | 'cancelled' | 'nothing' | 'no_adapter';
  /** Leaves Bluetooth: before it has the configuration, or to join the network, after which it says nothing more. */
  leaves?: 'before_config' | 'for_wifi';
};

/** A link without a larger MTU carries so much in a notification. */
const bytesAtOnce = 20;

export class EmulatedBoard {
  readonly behaviour: Behaviour;
  readonly written: string[] = [];
  /** What kept it from going on. */
  failure: unknown = null;
  #device: VirtualDevice | undefined;
  #settingUp: Promise<unknown> | undefined;
  #page: Page | undefined;

  constructor(behaviour: Behaviour) {
    this.behaviour = behaviour;
  }

  readonly install = async (context: BrowserContext): Promise<void> => {
    await context.exposeBinding('boardIsChosen', ({ page }) => {
      this.#page = page;
      return this.behaviour.choice ?? 'chosen';
    });
    await context.exposeBinding('boardReceives', (_, text: string) => this.#receive(text));
    const [{ prefix }] = advertisedNamePrefixes;
    const facts = { ...provisioningService, prefixes: advertisedNamePrefixes, name: `${prefix}4F2A` };
    await context.addInitScript(emulation, facts);
  };

  /** Once it has told the page all that it does. */
  async stop(): Promise<void> {
    await this.#settingUp;
    await this.#device?.stop();
  }

  /** False if the link broke before the board had all of it. */
  async #receive(text: string): Promise<boolean> {
    if (this.behaviour.leaves === 'before_config') {
      await this.#leave();
      return false;
    }
    this.written.push(text);
    const config = networkConfigSchema.parse(JSON.parse(text));
    this.#settingUp = this.#setUp(config).catch((error: unknown) => (this.failure = error));
    return true;
  }

  async #setUp({ password, apiUrl }: { password: string; apiUrl: string }): Promise<void> {
    await this.#notify('received', '');
    if (this.behaviour.leaves === 'for_wifi') await this.#leave();
    if (password !== this.behaviour.wifiPassword) return this.#notify('error', 'wifi: wrong password');
    await this.#notify('wifi_connected', '192.168.1.57');
    const { productKey, serial } = this.behaviour;
    this.#device = createVirtualDevice({ apiUrl, productKey, serial });
    await this.#device.start();
    await this.#notify('activated', '');
  }

  async #notify(status: string, message: string): Promise<void> {
    const bytes = [...Buffer.from(JSON.stringify({ status, message }))];
    for (let at = 0; at < bytes.length; at += bytesAtOnce) {
      await this.#page?.evaluate(`emulatedBoard.notify(${JSON.stringify(bytes.slice(at, at + bytesAtOnce))})`);
    }
  }

  async #leave(): Promise<void> {
    await this.#page?.evaluate('emulatedBoard.leave()');
  }
}

/** Runs in the page, before its scripts. Refuses what a browser refuses. */
function emulation(facts: {
  uuid: string;
  networkConfigUuid: string;
  statusUuid: string;
  prefixes: readonly { prefix: string }[];
  name: string;
}): void {
  type Page = typeof globalThis & {
    boardIsChosen: () => Promise<string>;
    boardReceives: (text: string) => Promise<boolean>;
    navigator: { userActivation: { isActive: boolean } };
    emulatedBoard: unknown;
  };
  const here = globalThis as unknown as Page;
  const uuid = { service: facts.uuid, config: facts.networkConfigUuid, status: facts.statusUuid };
  const isSame = (candidate: string, expected: string) => candidate === expected.toLowerCase();
  const fail = (name: string, message: string) => Promise.reject(new DOMException(message, name));
  let isSubscribed = false;
  let isConnected = false;

  const status = Object.assign(new EventTarget(), {
    value: undefined as DataView | undefined,
    properties: { write: false, writeWithoutResponse: false, notify: true },
    startNotifications: () => {
      isSubscribed = true;
      return Promise.resolve(status);
    },
  });
  const config = Object.assign(new EventTarget(), {
    properties: { write: true, writeWithoutResponse: false, notify: false },
    writeValueWithResponse: async (value: Uint8Array) => {
      if (!isConnected) return fail('NetworkError', 'GATT Server is disconnected.');
      if (value.length > 512) return fail('InvalidModificationError', 'Value can not exceed 512 bytes.');
      // Firmware starts at once: who is not subscribed by now misses what it says.
      if (!isSubscribed) return fail('InvalidStateError', 'The emulated board wants to be listened to first.');
      const isTaken = await here.boardReceives(new TextDecoder().decode(value));
      return isTaken ? undefined : fail('NetworkError', 'GATT operation failed: disconnected.');
    },
  });
  const service = {
    getCharacteristic: (candidate: string) => {
      if (isSame(candidate, uuid.config)) return Promise.resolve(config);
      if (isSame(candidate, uuid.status)) return Promise.resolve(status);
      return fail('NotFoundError', `No Characteristics matching UUID ${candidate} found.`);
    },
  };
  const gatt = {
    get connected() {
      return isConnected;
    },
    connect: () => {
      isConnected = true;
      return Promise.resolve(gatt);
    },
    disconnect: () => {
      isConnected = false;
    },
    getPrimaryService: (candidate: string) =>
      isSame(candidate, uuid.service)
        ? Promise.resolve(service)
        : fail('NotFoundError', `No Services matching UUID ${candidate} found.`),
  };
  const device = Object.assign(new EventTarget(), { name: facts.name, gatt });
  const bluetooth = Object.assign(new EventTarget(), {
    getAvailability: async () => !['nothing', 'no_adapter'].includes(await here.boardIsChosen()),
    requestDevice: async (options: { filters: { namePrefix: string }[]; optionalServices: string[] }) => {
      if (!here.navigator.userActivation.isActive) return fail('SecurityError', 'Must be handling a user gesture.');
      const isOffered = options.filters.some(({ namePrefix }) => facts.name.startsWith(namePrefix));
      const isAllowed = options.optionalServices.some((candidate) => isSame(candidate, uuid.service));
      const choice = await here.boardIsChosen();
      if (choice === 'no_adapter') return fail('NotFoundError', 'Bluetooth adapter not available.');
      if (choice === 'nothing' || !isOffered) return new Promise(() => undefined);
      if (choice === 'cancelled') return fail('NotFoundError', 'User cancelled the requestDevice() chooser.');
      if (!isAllowed) return fail('SecurityError', 'Origin is not allowed to access any service.');
      return device;
    },
  });
  here.emulatedBoard = {
    notify: (bytes: number[]) => {
      if (!isConnected || !isSubscribed) return;
      status.value = new DataView(Uint8Array.from(bytes).buffer);
      status.dispatchEvent(new Event('characteristicvaluechanged'));
    },
    leave: () => {
      isConnected = false;
      device.dispatchEvent(new Event('gattserverdisconnected'));
    },
  };
  Object.defineProperty(navigator, 'bluetooth', { value: bluetooth, configurable: true });
}
