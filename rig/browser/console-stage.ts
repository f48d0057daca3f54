// The stage of a file of console tests: a browser, and an account of its own with a product. All files share the service
// (console-service.ts).
import type { Page } from 'playwright-core';
import { inject } from 'vitest';
import {
  createVirtualDevice,
  type OnDeviceEvent,
  type VirtualDevice,
  type VirtualDeviceOptions,
} from '../../dev/virtual-device.ts';
import { addProduct, signUp, type Account, type Session } from '../clients/accounts.ts';
import { connectApi } from '../clients/api.ts';
import { Browser } from './browser.ts';
import { signIn } from './console-visit.ts';

export class Stage {
  readonly url: string;
  readonly browser: Browser;
  readonly owner: Session;
  readonly productKey: string;

  private constructor(url: string, browser: Browser, owner: Session, productKey: string) {
    this.url = url;
    this.browser = browser;
    this.owner = owner;
    this.productKey = productKey;
  }

  static async open(): Promise<Stage> {
    const { url, browser: endpoint } = inject('console');
    const browser = await Browser.join(endpoint, url);
    const owner = await signUp((credentials) => connectApi(url, credentials));
    return new Stage(url, browser, owner, await addProduct(owner));
  }

  /** A page that is signed in. */
  async visit(options: Parameters<Browser['open']>[1] = {}, user: Account = this.owner): Promise<Page> {
    const page = await this.browser.open('/', options);
    await signIn(page, user);
    return page;
  }

  /** Another user. */
  signUp(): Promise<Session> {
    return signUp((credentials) => connectApi(this.url, credentials));
  }

  /** Its `start` ends once it has subscribed and reported: what is sent then, it hears. */
  makeDevice(serial: string, options: Partial<VirtualDeviceOptions> = {}): VirtualDevice {
    const reported = Promise.withResolvers<null>();
    const onEvent: OnDeviceEvent = (event, text) => {
      if (event === 'reported') reported.resolve(null);
      options.onEvent?.(event, text);
    };
    const device = createVirtualDevice({ apiUrl: this.url, productKey: this.productKey, serial, ...options, onEvent });
    const start = async () => {
      const activation = await device.start();
      await reported.promise;
      return activation;
    };
    return { ...device, start };
  }

  close(): Promise<void> {
    return this.browser.stop();
  }
}
