// The user's own data in the console: a file with all of it, and the end of the account.
import { json } from 'node:stream/consumers';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { activateMany, type Session } from '../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, visitors } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the own data', () => {
  let stage: Stage;
  let page: Page;
  let buyer: Session;
  /** More than a page of them, and more than one request releases. */
  let deviceIds: string[];

  beforeAll(async () => {
    stage = await Stage.open();
    const serials = Array.from({ length: 41 }, (_, index) => `SN-${100 + index}`);
    deviceIds = (await activateMany(stage.owner.api, stage.productKey, serials)).map(({ deviceId }) => deviceId);
    buyer = await stage.signUp();
    const { token } = await dataOf(buyer.api.devices['claim-tokens'].$post({ json: {} }));
    const body = JSON.stringify({ productKey: stage.productKey, deviceSN: 'SN-SOLD' });
    const claimed = await fetch(`${stage.url}/t/${token}/api/v1/devices/activate`, { method: 'POST', body });
    expect(claimed.status).toBe(200);
    page = await stage.visit();
  });
  afterAll(() => stage.close());
  const takeProblems = async () => (await stage.browser.takeProblems()).filter((problem) => !isRefusal.test(problem));
  afterEach(async () => expect(await takeProblems()).toEqual([]));

  const part = (name: string) => page.getByRole('region', { name, exact: true });
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  const openAccount = async (of: Page) => {
    await of.getByRole('link', { name: 'Settings' }).click();
    await of.getByLabel('Time zone of your days').waitFor();
  };
  const askToDelete = async (of: Page, password: string) => {
    const dialog = of.getByRole('dialog', { name: 'Delete the account' });
    if (!(await dialog.isVisible())) await of.getByRole('button', { name: 'Delete the account' }).click();
    await dialog.getByLabel('Your password').fill(password);
    await dialog.getByRole('button', { name: 'Delete it for good' }).click();
    return dialog;
  };
  const logIn = ({ email: username, password }: Session) =>
    connectApi(stage.url).users.login.$post({ json: { username, password } });

  it('is downloaded whole: after a wait, and after a failure from where it stopped', async () => {
    const asked: string[] = [];
    // The page's own answers: the limits of this service are relaxed, and it does not fail.
    await page.route('**/api/v1/users/me/export*', async (route) => {
      asked.push(new URL(route.request().url()).search);
      const message = 'too_many_requests';
      if (asked.length === 2) {
        await route.fulfill({ status: 429, headers: { 'Retry-After': '2' }, json: { code: 429, message, data: null } });
      } else if (asked.length === 4) await route.abort();
      else await route.continue();
    });
    await openAccount(page);
    await press('Download all of it');
    await part('Your data').getByText('20 devices so far.').waitFor();
    await part('Your data').getByText('The service asks to wait for 2 s.').waitFor();
    await part('Your data').getByText('The service cannot be reached.').waitFor();
    await part('Your data').getByText('40 devices so far.').waitFor();
    const saved = page.waitForEvent('download');
    await press('Try again');
    const file = await saved;
    await part('Your data').getByText('The file has 41 devices.').waitFor();
    expect(file.suggestedFilename()).toMatch(/^latchwork-\d{4}-\d\d-\d\d\.json$/);
    const { account, devices, ...others } = (await json(await file.createReadStream())) as {
      account: Record<string, unknown>;
      devices: { deviceId: string; role: string; present: object }[];
    };
    expect(others).toEqual({});
    expect(account).toMatchObject({ email: stage.owner.email, products: { total: 1 } });
    expect(devices.map(({ deviceId }) => deviceId).toSorted()).toEqual(deviceIds.toSorted());
    expect(devices[0]).toMatchObject({ role: 'owner', present: { online: false }, schedules: { list: [] } });
    expect(asked).toHaveLength(5);
    expect([asked[0], asked[1], asked[3]]).toEqual(['', asked[2], asked[4]]);
  });

  it('stays with a wrong password, and while others have devices of a product', async () => {
    await page.getByRole('button', { name: 'Delete the account' }).focus();
    await page.keyboard.press('Enter');
    await page.locator('dialog input:focus').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('button:focus', { hasText: 'Delete the account' }).waitFor();
    const dialog = await askToDelete(page, 'not the password');
    await dialog.getByText('The present password is wrong.').waitFor();
    await askToDelete(page, stage.owner.password);
    await dialog.getByText('Other people have devices of your products.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    expect((await logIn(stage.owner)).status).toBe(200);
  });

  it.each(visitors)('keeps nobody out %s, and fits', async (look, visitor) => {
    const other = await stage.visit(visitor, buyer);
    await openAccount(other);
    await other.getByRole('button', { name: 'Download all of it' }).scrollIntoViewIfNeeded();
    for (const opens of [false, true]) {
      if (opens) await other.getByRole('button', { name: 'Delete the account' }).click();
      expect(await findBarriers(other), look).toEqual([]);
    }
    await other.context().close();
  });

  it('ends with the account: signed out, told so, and the login fails', async () => {
    const other = await stage.visit({}, buyer);
    await openAccount(other);
    await askToDelete(other, buyer.password);
    await other.getByText('Your account is deleted, and your devices are released.').waitFor();
    await other.getByRole('button', { name: 'Sign in' }).waitFor();
    expect(await other.evaluate<string[]>('Object.keys(localStorage)')).toEqual([]);
    expect((await logIn(buyer)).status).toBe(401);
    await other.getByLabel('Email or user name').fill(buyer.email);
    await other.getByLabel('Password').fill(buyer.password);
    await other.getByRole('button', { name: 'Sign in' }).click();
    await other.getByText('User name and password do not fit.').waitFor();
    await other.context().close();
  });

  it('says that devices are still released, if there are many', async () => {
    await askToDelete(page, stage.owner.password);
    await page.getByText('Some of your devices are still being released: that takes minutes.').waitFor();
    expect((await logIn(stage.owner)).status).toBe(401);
  });
});

/** What a refused call or a cut connection writes to the browser's console. */
const isRefusal = /a status of 4(00|01|03|29)|ERR_FAILED/;
