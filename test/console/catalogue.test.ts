// Products, their serial numbers and the settings of an account in the console, in a real browser against the whole service.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { addProduct, activate, newProductKey } from '../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../rig/clients/api.ts';
import { browserMissing, type Browser } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the catalogue and the settings', () => {
  let stage: Stage;
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    stage = await Stage.open();
    ({ browser } = stage);
    page = await stage.visit();
  });
  afterAll(() => stage.close());
  afterEach(async () => expect(await browser.takeProblems()).toEqual([]));

  const press = (name: string | RegExp, on = page) => on.getByRole('button', { name, exact: true }).click();
  /** Chromium notes each refused call on its console. */
  const wasRefused = async () => {
    const problems = await browser.takeProblems();
    browser.problems.push(...problems.filter((text) => !/server responded with a status of 4\d\d/.test(text)));
  };
  const says = (text: string | RegExp, on = page) => on.getByText(text).first().waitFor();
  const go = (hash: string, on = page) => on.evaluate(`location.hash = '${hash}'`);
  const serials = () => page.getByRole('region', { name: 'Serial numbers' });
  const figure = (name: string) =>
    page.locator('section.card .figures > div').filter({ hasText: name }).locator('dd').textContent();

  describe('a product', () => {
    const productKey = newProductKey();

    it('is made with all that the interface knows of it, after what is wrong was said', async () => {
      await page.getByRole('link', { name: 'Products', exact: true }).click();
      await page.getByRole('link', { name: 'Create a product' }).click();
      await page.getByLabel('Product key').fill(stage.productKey);
      await page.getByLabel('Name').fill('Hall switch');
      await page.getByLabel('Description').fill('On the wall');
      await page.getByLabel('Category').fill('switch');
      await page.getByLabel('Control').selectOption('dimmer');
      await page.getByLabel('New devices').selectOption('registered');
      await page.getByLabel('Devices that activate again').selectOption('secret');
      await page.getByLabel('Offline after').fill('30');
      await page.getByLabel('Maker').fill('Ada');
      await page.getByLabel('Model').fill('H-1');
      await page.getByLabel('Icon', { exact: true }).fill('lightbulb');
      await page.getByLabel('Screen').fill('slider');
      await page.getByLabel('Colour').fill('#aa3300');
      await press('Save');
      await says('This product key is taken.');
      await wasRefused();
      await page.getByLabel('Product key').fill(productKey);
      await press('Save');
      await page.getByRole('heading', { level: 1, name: 'Hall switch' }).waitFor();
      const product = await dataOf(stage.owner.api.products[':productKey'].$get({ param: { productKey } }));
      expect(product).toMatchObject({
        ...{ name: 'Hall switch', description: 'On the wall', category: 'switch', controlMode: 'dimmer' },
        ...{ activation: 'registered', reactivation: 'secret', offlineGraceSeconds: 30, status: 1 },
        ...{ manufacturer: 'Ada', model: 'H-1', iconName: 'lightbulb', uiTemplate: 'slider', iconColor: '#aa3300' },
      });
    });

    it('is changed where it stands', async () => {
      await page.getByLabel('Name').fill('Hallway switch');
      await page.getByLabel('Devices may activate').uncheck();
      await page.getByLabel('Devices that activate again').selectOption('default');
      await press('Save');
      await says('Saved.');
      await page.getByRole('heading', { level: 1, name: 'Hallway switch' }).waitFor();
      const product = await dataOf(stage.owner.api.products[':productKey'].$get({ param: { productKey } }));
      expect(product).toMatchObject({ name: 'Hallway switch', status: 0, reactivation: null, controlMode: 'dimmer' });
    });

    it('takes a long list of serial numbers in several calls, with a result for each line', async () => {
      const numbers = Array.from({ length: 1200 }, (_, index) => `SN-${index + 1}`);
      const calls: number[] = [];
      page.on('request', (request) => {
        if (request.method() === 'POST' && request.url().endsWith('/serials')) {
          calls.push((request.postDataJSON() as { serials: unknown[] }).serials.length);
        }
      });
      await press('Import serial numbers');
      const dialog = page.getByRole('dialog');
      await press('Read');
      await says('There is no serial number in it.');
      await dialog.getByLabel('One a line').fill(['deviceSN', ...numbers, 'SN-7', 'Sérial'].join('\n'));
      await press('Read');
      await press('Import 1,202 serial numbers');
      await says('Done: all 1,202 were sent.');
      expect(calls).toEqual([1000, 202]);
      expect(await dialog.locator('.lines li').allTextContents()).toEqual([
        'line 1,202 SN-7 repeated in the list',
        'line 1,203 Sérial no serial number (1 to 64 printable characters), or no claim code (8 to 64)',
      ]);
      const download = page.waitForEvent('download');
      await press('Save the results as CSV');
      expect((await download).suggestedFilename()).toBe('serials.csv');
      await press('Close');
      await expect.poll(() => figure('Devices')).toBe('1,200');
    });

    it('goes on with an import that was stopped, and reads files', async () => {
      await press('Import serial numbers');
      const dialog = page.getByRole('dialog');
      const content = JSON.stringify({ serials: ['FILE-1', 'FILE-2', 4] });
      const buffer = Buffer.from(content);
      await dialog.getByLabel('Or a file').setInputFiles({ name: 'serials.json', mimeType: 'text/plain', buffer });
      await press('Read');
      await page.route('**/serials', (route) => route.abort(), { times: 1 });
      await press('Import 3 serial numbers');
      await says('The service cannot be reached.');
      await press('Import 3 serial numbers');
      await says('Done: all 3 were sent.');
      expect(await dialog.locator('.figures').textContent()).toMatch(/^registered2no serial number.*1$/);
      await press('Close');
      expect((await browser.takeProblems()).join()).toMatch(/^console: Failed to load resource: net::ERR_FAILED$/);
    });

    it('shows its serial numbers page by page, and forgets one', async () => {
      await serials().getByText('FILE-2').waitFor();
      const rows = serials().getByRole('listitem');
      expect(await rows.count()).toBe(50);
      await serials().getByRole('button', { name: 'Show more' }).click();
      await expect.poll(() => rows.count()).toBe(100);
      await press('Delete FILE-2');
      await serials().getByText('FILE-2').waitFor({ state: 'detached' });
      await expect.poll(() => figure('Devices')).toBe('1,201');
    });

    it('that is not empty stays, and goes once its devices are deleted', async () => {
      await press('Delete this product');
      await press('Delete for good');
      await says('The product still has devices or serial numbers: delete them first, among its serial numbers.');
      await wasRefused();
      await press('Close');
      const empty = await addProduct(stage.owner, { name: 'Nothing of it' });
      const registered = { param: { productKey: empty }, json: { serials: ['N-1', 'N-2'] } };
      await dataOf(stage.owner.api.products[':productKey'].serials.$post(registered));
      await go(`#/products/${empty}`);
      await page.getByRole('heading', { level: 1, name: 'Nothing of it' }).waitFor();
      await press('Delete several');
      await press('Delete them for good');
      await page.getByRole('dialog').getByText('2 deleted, 0 left').waitFor();
      await press('Close');
      await serials().getByText('No serial number yet.').waitFor();
      await press('Delete this product');
      await press('Delete for good');
      await page.getByRole('heading', { level: 1, name: 'Products' }).waitFor();
      await says('Hallway switch');
      await page.getByText('Nothing of it').waitFor({ state: 'detached' });
    });

    it('lets its owner keep a device out that somebody else has claimed, and see nothing else of it', async () => {
      const buyer = await stage.signUp();
      const claimed = await addProduct(stage.owner, { name: 'Sold switch' });
      const { apiUrl } = await dataOf(buyer.api.devices['claim-tokens'].$post({ json: {} }));
      const { deviceId } = await activate(connectApi(apiUrl), claimed, 'SOLD-1');
      await go(`#/products/${claimed}`);
      await serials().getByText('claimed: it belongs to a user').waitFor();
      expect(await serials().getByRole('link', { name: 'Open' }).count()).toBe(0);
      await press('Disable SOLD-1');
      await page.getByRole('dialog').getByRole('button', { name: 'Disable', exact: true }).click();
      await press('Enable SOLD-1');
      await page.getByRole('button', { name: 'Disable SOLD-1' }).waitFor();
      await go(`#/devices/${deviceId}`);
      await says('This device belongs to somebody else.');
      await wasRefused();
    });

    it('whose page cannot be loaded is said not to be, with a way out', async () => {
      const other = await stage.visit();
      await other.route('**/console/*.js', (route) => route.abort());
      await go(`#/products/${productKey}`, other);
      await says('This part of the page could not be loaded', other);
      await other.unroute('**/console/*.js');
      await press('Load the page again', other);
      await other.getByRole('heading', { level: 1, name: 'Hallway switch' }).waitFor();
      await other.context().close();
      expect((await browser.takeProblems()).join()).toMatch(/^console: Failed to load resource: net::ERR_FAILED$/);
    });

    it('that does not exist is said not to', async () => {
      await go('#/products/no-such-product');
      await says('There is no such product.');
      await wasRefused();
    });
  });

  describe('the settings', () => {
    it('make an API key that may do what was chosen, show its value once, and delete it', async () => {
      await page.getByRole('link', { name: 'Settings' }).click();
      const keys = page.getByRole('region', { name: 'API keys' });
      await keys.getByLabel('What it is for').fill('Board');
      await keys.getByLabel('Read:').uncheck();
      await press('Create an API key');
      await says('Choose at least one thing that the key may do.');
      await keys.getByLabel('Read:').check();
      await keys.getByLabel('Only for the product').fill('no-such-product');
      await press('Create an API key');
      await says('There is no product with this key.');
      await keys.getByLabel('Only for the product').fill(stage.productKey);
      await press('Create an API key');
      await says('the value is not shown again');
      const values = await page.getByRole('dialog').locator('.once code').allTextContents();
      await press('Close');
      const [keyId = '', apiKey = ''] = values;
      await keys.getByText(`${keyId} · read · ${stage.productKey} · never used`).waitFor();
      await page.getByText(apiKey).waitFor({ state: 'detached' });
      const api = connectApi(stage.url, { keyId, apiKey });
      expect((await api.devices.$get({ query: {} })).status).toBe(200);
      expect((await api.products.$post({ json: { productKey: 'x', name: 'x' } })).status).toBe(403);
      await press('Delete Board');
      await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
      await keys.getByText('No API key yet.').waitFor();
      await expect.poll(async () => (await api.devices.$get({ query: {} })).status).toBe(401);
      await wasRefused();
    });

    it('list the sessions, and end one of them', async () => {
      const phone = await stage.visit({ userAgent: 'SwitchApp/2.1 (Android)' });
      await page.reload();
      const sessions = page.getByRole('region', { name: 'Sessions' });
      await sessions.getByRole('listitem').filter({ hasText: 'this one' }).getByText('Chrome on Linux').waitFor();
      // Its page would note that its session has ended.
      const tokens = await phone.evaluate<string>("localStorage.getItem('latchwork.tokens')");
      await phone.context().close();
      await press('End the session of SwitchApp/2.1');
      await sessions.getByText('SwitchApp/2.1').waitFor({ state: 'detached' });
      const { refreshToken } = JSON.parse(tokens) as { refreshToken: string };
      const renewed = await connectApi(stage.url).users['refresh-token'].$post({ json: { refreshToken } });
      expect(renewed.status).toBe(401);
    });

    it('change the password, which ends the other sessions', async () => {
      const { email, password } = stage.owner;
      await page.getByLabel('Present password').fill('not the password');
      await page.getByLabel('New password').fill(`${password}!`);
      await press('Change password');
      await says('The present password is wrong.');
      await wasRefused();
      await page.getByLabel('Present password').fill(password);
      await press('Change password');
      await says(/The password was changed. Ended: \d+ other sessions, 0 API keys/);
      await expect.poll(() => page.getByLabel('New password').inputValue()).toBe('');
      await expect.poll(() => page.getByRole('region', { name: 'Sessions' }).getByRole('listitem').count()).toBe(1);
      const other = await stage.visit({}, { email, password: `${password}!` });
      await other.context().close();
    });

    it('sign out everywhere, after a question that the keyboard can answer', async () => {
      await page.getByRole('button', { name: 'Sign out everywhere' }).focus();
      await page.keyboard.press('Enter');
      await page.getByRole('dialog', { name: 'Sign out everywhere' }).waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await page.locator('button:focus', { hasText: 'Sign out everywhere' }).waitFor();
      await press('Sign out everywhere');
      await press('End all sessions');
      await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    });
  });

  it('keep nobody out, in light and in dark, and fit a phone', async () => {
    const visitor = await stage.signUp();
    const productKey = await addProduct(visitor, {
      name: 'A product with a name that is as long as names may become here',
    });
    await activate(visitor.api, productKey, `SERIAL-${'0123456789'.repeat(5)}`);
    await dataOf(visitor.api.users['api-keys'].$post({ json: { description: 'Board' } }));
    for (const colorScheme of ['light', 'dark'] as const) {
      const phone = await stage.visit({ colorScheme, viewport: { width: 360, height: 740 } }, visitor);
      for (const [hash, text] of [
        ['#/products', 'A product with a name'],
        [`#/products/${productKey}`, 'SERIAL-'],
        ['#/products/+', 'Product key'],
        ['#/settings', 'Board'],
      ] as const) {
        await go(hash, phone);
        await says(text, phone);
        expect(await findBarriers(phone), hash).toEqual([]);
      }
      await phone.context().close();
    }
  });
});
