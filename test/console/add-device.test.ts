// Adding a device in the console, in a real browser: the peripheral is emulated (emulated-board.ts), what it does after it got
// its configuration is real.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { activate, addProduct } from '../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers } from '../../rig/browser/console-visit.ts';
import { EmulatedBoard } from '../../rig/browser/emulated-board.ts';

const wifiPassword = 'correct horse battery';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'adding a device', () => {
  let stage: Stage;
  /** A product of somebody else: only the claim token makes its devices the visitor's. */
  let productKey: string;
  const boards: EmulatedBoard[] = [];

  beforeAll(async () => {
    stage = await Stage.open();
    const maker = await stage.signUp();
    productKey = await addProduct(maker, { name: 'Wall switch' });
  });
  afterAll(() => stage.close());
  afterEach(async () => {
    for (const board of boards) await board.stop();
    expect(boards.map(({ failure }) => failure)).toEqual(boards.map(() => null));
    expect(await stage.browser.leave()).toEqual([]);
  });

  /** Where a device is added, with a board in pairing mode beside it. */
  async function visit(
    behaviour: Partial<EmulatedBoard['behaviour']> = {},
  ): Promise<{ page: Page; board: EmulatedBoard }> {
    const board = new EmulatedBoard({ productKey, serial: `BOARD-${boards.length}`, wifiPassword, ...behaviour });
    boards.push(board);
    const page = await stage.visit({ prepare: board.install });
    await page.getByRole('link', { name: 'Add a device' }).click();
    return { page, board };
  }

  async function choose(page: Page, password = wifiPassword): Promise<void> {
    await page.getByLabel('Wi-Fi name').fill('Attic');
    await page.getByLabel('Wi-Fi password').fill(password);
    await page.getByRole('button', { name: 'Choose the device' }).click();
  }

  const alert = (page: Page) => page.getByRole('alert').filter({ hasText: /./ });

  it('brings it into the Wi-Fi and into the account, and keeps no password', async () => {
    const { page, board } = await visit();
    const sent: string[] = [];
    page.on('request', (request) => sent.push(`${request.url()} ${request.postData() ?? ''}`));
    await choose(page);
    await page.getByText('The device is activated, and it is yours.').waitFor();
    expect(board.written).toEqual([
      expect.stringMatching(
        new RegExp(`^{"ssid":"Attic","password":"${wifiPassword}","apiUrl":"${stage.url}/t/[0-9a-z]{20}"}$`),
      ),
    ]);
    expect(sent.filter((request) => request.includes(wifiPassword))).toEqual([]);
    const kept = await page.evaluate<string>('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])');
    expect(kept).not.toContain(wifiPassword);
    expect(await page.content()).not.toContain(wifiPassword);
    await page.getByRole('link', { name: 'Open the device' }).click();
    await page.getByRole('heading', { level: 1, name: /RD-/ }).waitFor();
    await page.locator('.device-head').getByText('Online').waitFor();
  });

  it('says that the Wi-Fi password is wrong, and is tried again with another one', async () => {
    const { page, board } = await visit();
    await choose(page, 'not the password');
    await alert(page).getByText('The device could not join the Wi-Fi.').waitFor();
    await page.getByText('It said: wifi: wrong password').waitFor();
    await choose(page);
    await page.getByText('The device is activated, and it is yours.').waitFor();
    // With the same address: nothing had come with it.
    const addresses = board.written.map((text) => (JSON.parse(text) as { apiUrl: string }).apiUrl);
    expect(new Set(addresses).size).toBe(1);
  });

  it('says that the link dropped before anything was set up', async () => {
    const { page } = await visit({ leaves: 'before_config' });
    await choose(page);
    await alert(page).getByText('The connection to the device was lost.').waitFor();
    await page.getByText('Nothing is set up yet.').waitFor();
  });

  it('hears from the service of a device that left Bluetooth to join the Wi-Fi', async () => {
    const { page } = await visit({ leaves: 'for_wifi' });
    await choose(page);
    await page.getByText('The device is activated, and it is yours.').waitFor();
  });

  it('says that nothing was chosen', async () => {
    const { page, board } = await visit({ choice: 'cancelled' });
    await choose(page);
    await alert(page).getByText('No device was chosen.').waitFor();
    board.behaviour.choice = 'chosen';
    await choose(page);
    await page.getByText('The device is activated, and it is yours.').waitFor();
  });

  it('says that Bluetooth is off, and has a way out where the browser shows nothing', async () => {
    const { page, board } = await visit({ choice: 'nothing' });
    await page.getByText('Bluetooth is off, or this computer has none').waitFor();
    await choose(page);
    await page.getByText('turn on Bluetooth on this computer or phone').waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    board.behaviour.choice = 'no_adapter';
    await choose(page);
    await alert(page).getByText('Bluetooth is off, or this computer has none.').waitFor();
  });

  it('refuses what no network takes before anything is asked', async () => {
    const { page, board } = await visit();
    await choose(page, 'short');
    await alert(page).getByText('The Wi-Fi password is not right.').waitFor();
    expect(board.written).toEqual([]);
  });

  it('is done by hand in a browser without Bluetooth, with an address that makes the device yours', async () => {
    const prepare: EmulatedBoard['install'] = async (context) => {
      await context.addInitScript('delete Navigator.prototype.bluetooth');
    };
    const page = await stage.visit({ prepare, colorScheme: 'dark' });
    await page.getByRole('link', { name: 'Add a device' }).click();
    await page.getByText('Chrome and Edge can').waitFor();
    expect(await page.getByRole('button', { name: 'Choose the device' }).count()).toBe(0);
    // A board cannot reach the computer that the page is opened on as 127.0.0.1.
    await page.getByText('reached from this computer only').waitFor();
    await page.getByRole('button', { name: 'Make an address' }).click();
    const apiUrl = await page.locator('.once code').first().innerText();
    await page.getByText('Waiting for the device.').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    const { deviceId } = await activate(connectApi(apiUrl), productKey, 'BY-HAND');
    await page.getByText('The device is activated, and it is yours.').waitFor();
    const { list } = await dataOf(stage.owner.api.devices.$get({ query: {} }));
    expect(list.map((device) => device.deviceId)).toContain(deviceId);
  });
});
