// What a person does in the console, by what is written on the screen.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { inject } from 'vitest';
import { VirtualDevice, type VirtualDeviceOptions } from '../../dev/virtual-device.ts';
import { addProduct, signUp, type Session } from './accounts.ts';
import { connectApi } from './api.ts';
import { Browser } from './browser.ts';

/** A browser, and an account of its own with a product at the service that all files share. */
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

  /** A page that is signed in as the owner. */
  async visit(options: Parameters<Browser['open']>[1] = {}): Promise<Page> {
    const page = await this.browser.open('/', options);
    await signIn(page, this.owner);
    return page;
  }

  makeDevice(serial: string, options: Partial<VirtualDeviceOptions> = {}): VirtualDevice {
    return new VirtualDevice({ apiUrl: this.url, productKey: this.productKey, serial, ...options });
  }

  close(): Promise<void> {
    return this.browser.stop();
  }
}

export async function signIn(page: Page, owner: { email: string; password: string }): Promise<void> {
  await page.getByLabel('Email or user name').fill(owner.email);
  await page.getByLabel('Password').fill(owner.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor();
}

export async function openDevice(page: Page, name: RegExp): Promise<void> {
  await page.getByRole('link', { name: 'Devices', exact: true }).click();
  await page.getByRole('link', { name }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

const axePath = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
type AxeResult = { violations: { id: string; impact: string; help: string; nodes: { html: string }[] }[] };

/** What axe-core finds that keeps somebody out: serious and critical violations. */
export async function findBarriers(page: Page): Promise<string[]> {
  // Not by a script element, which the page's policy refuses.
  await page.evaluate(readFileSync(axePath, 'utf8'));
  const { violations } = await page.evaluate<AxeResult>('axe.run()');
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`);
}
