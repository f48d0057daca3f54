// What a person sees and does in the console, in a real browser against the whole service, with virtual switches as devices.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { VirtualDevice } from '../../dev/virtual-device.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, openDevice, openTab, signIn, visitors } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the console', () => {
  let stage: Stage;
  let device: VirtualDevice;
  let deviceId: string;

  beforeAll(async () => {
    stage = await Stage.open();
    device = stage.makeDevice('HALL-1');
    ({ deviceId } = await device.start());
    const json = { name: 'Light in the upper hall, beside the window and to the left of the stairs, LL-1' };
    await dataOf(stage.owner.api.devices[':deviceId'].$patch({ param: { deviceId }, json }));
  });
  afterAll(async () => {
    await device.stop();
    await stage.close();
  });
  afterEach(async () => expect(await stage.browser.leave()).toEqual([]));

  const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
  const pressed = (page: Page, name: string) =>
    page.getByRole('button', { name, exact: true, pressed: true }).waitFor();

  it('makes an account, says what is wrong with it first, and offers what to do next', async () => {
    const page = await stage.browser.open();
    await page.getByRole('button', { name: 'No account yet? Create one' }).click();
    await page.getByLabel('Email').fill('newcomer@example.com');
    await page.getByLabel('Password').fill('short');
    await press(page, 'Create account');
    await page.getByText('The password needs at least 8 characters and must not be a common one.').waitFor();
    await page.getByLabel('Password').fill('long enough for it');
    await press(page, 'Create account');
    await page.getByRole('heading', { name: 'No device yet' }).waitFor();
    expect(stage.browser.problems.splice(0)).toEqual([expect.stringContaining('400')]);
  });

  it('says that a password is wrong', async () => {
    const page = await stage.browser.open();
    await page.getByLabel('Email or user name').fill(stage.owner.email);
    await page.getByLabel('Password').fill('not the password');
    await press(page, 'Sign in');
    await page.getByText('User name and password do not fit.').waitFor();
    expect(stage.browser.problems.splice(0)).toEqual([expect.stringContaining('401')]);
  });

  it('is signed in to with the address that fills in a password, which leaves the address at once', async () => {
    const { email, password } = stage.owner;
    const path = `/#/sign-in/${encodeURIComponent(email)}/${encodeURIComponent(password)}`;
    const page = await stage.browser.open(path);
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    expect(page.url()).not.toContain(encodeURIComponent(password));
    await page.locator('button:focus', { hasText: 'Sign in' }).waitFor();
    await page.keyboard.press('Enter');
    await page.locator('h1:focus', { hasText: 'Devices' }).waitFor();
    await page.getByRole('listitem').filter({ hasText: 'LL-1' }).waitFor();
  });

  it('fills in no password of an address on another host than loopback', async () => {
    const page = await stage.browser.open('/');
    await page.route('https://console.test/**', async (route) => {
      const { pathname } = new URL(route.request().url());
      await route.fulfill({ response: await route.fetch({ url: stage.url + pathname }) });
    });
    await page.goto('https://console.test/#/sign-in/eve/eves-password');
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    expect(page.url()).toBe('https://console.test/#/');
    for (const label of ['Email or user name', 'Password']) expect(await page.getByLabel(label).inputValue()).toBe('');
    for (const problem of stage.browser.problems.splice(0)) expect(problem).toContain('https://console.test/');
    // What the page still loads would go to a host that does not exist.
    await page.goto('about:blank');
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.context().close();
  });

  it('shows a device live, presses it, and follows the command to the report that confirms it', async () => {
    const page = await stage.visit();
    const row = page.getByRole('listitem').filter({ hasText: 'LL-1' });
    await row.getByText('Online').waitFor();
    await openDevice(page, /LL-1/);
    await page.locator('h1:focus', { hasText: 'LL-1' }).waitFor();
    for (const position of ['Up', 'Middle', 'Down']) {
      await press(page, position);
      await pressed(page, position);
      await page.locator('.journey').getByText('Confirmed by a report').waitFor();
    }
    const steps = await page.locator('.steps li').allInnerTexts();
    expect(steps.map((text) => text.replace(/[\d,]+ ms/, 'N ms').replace(/\s+/g, ' '))).toEqual([
      'accepted N ms',
      'sent N ms',
      'at broker or direct N ms',
      'acknowledged N ms',
      'confirmed N ms',
    ]);
  });

  it('shows to one person what another does, and who asked for what last, also after a reload', async () => {
    const guest = await stage.signUp();
    const members = stage.owner.api.devices[':deviceId'].members;
    const json = { email: guest.email, role: 'operator' } as const;
    const param = await dataOf(members.$post({ param: { deviceId }, json }));
    await dataOf(guest.api.invitations[':invitationId'].accept.$post({ param }));
    const [one, other] = [await stage.visit(), await stage.visit({}, guest)];
    await openDevice(one, /LL-1/);
    await openDevice(other, /LL-1/);
    const says = (page: Page, text: string) => page.locator('.sides').getByText(text).waitFor();
    await press(one, 'Up');
    await pressed(other, 'Up');
    await says(other, 'Up by somebody else');
    await openTab(other, 'History');
    await other.locator('.timeline').getByText('toggle up').first().waitFor();
    await other.goBack();
    await press(other, 'Down');
    await pressed(one, 'Down');
    await says(one, `Down by ${guest.email}`);
    await one.reload();
    await says(one, `Down by ${guest.email}`);
  });

  it('renames, disables, enables and deletes a device', async () => {
    const lamp = stage.makeDevice('LAMP-2');
    await lamp.start();
    const [page, list, other] = [await stage.visit(), await stage.visit(), await stage.visit()];
    const row = list.getByRole('listitem').filter({ hasText: 'Attic lamp' });
    await openDevice(page, /MP-2/);
    await openDevice(other, /MP-2/);
    await openTab(page, 'Settings');
    await page.getByLabel('Name').fill('Attic lamp');
    await press(page, 'Rename');
    for (const each of [page, other]) await each.getByRole('heading', { level: 1, name: 'Attic lamp' }).waitFor();
    await row.waitFor();
    await press(page, 'Disable');
    await row.getByText('Disabled', { exact: true }).waitFor();
    await other.getByText('The device is disabled: enable it to control it.').waitFor();
    await press(page, 'Enable');
    await page.getByRole('button', { name: 'Disable', exact: true }).waitFor();
    await lamp.stop();
    await press(page, 'Delete');
    await page.getByRole('dialog').getByText('gone for good').waitFor();
    // In the middle, and a key that is pressed too often deletes nothing.
    const { x = 0, y = 0, width = 0, height = 0 } = (await page.getByRole('dialog').boundingBox()) ?? {};
    expect([x + width / 2, y + height / 2].map(Math.round)).toEqual([550, 400]);
    await page.locator('dialog h2:focus', { hasText: 'Delete' }).waitFor();
    await press(page, 'Delete for good');
    await page.getByRole('heading', { name: 'Devices' }).waitFor();
    await page.getByRole('listitem').filter({ hasText: 'LL-1' }).waitFor();
    await page.getByText('Attic lamp').waitFor({ state: 'detached' });
    await row.waitFor({ state: 'detached' });
    await other.getByText('There is no such device. It may have been deleted.').waitFor();
    // A page that reads a device while that is deleted is told so.
    expect((await stage.browser.leave()).filter((problem) => !problem.includes('a status of 404'))).toEqual([]);
  });

  it('can be used by keyboard alone', async () => {
    const page = await stage.browser.open();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.type(stage.owner.email);
    await page.keyboard.press('Tab');
    await page.keyboard.type(stage.owner.password);
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: /LL-1/ }).waitFor();
    await tabTo(page, /LL-1/);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: /LL-1/ }).waitFor();
    await page.getByRole('button', { name: 'Middle', exact: true }).waitFor();
    await tabTo(page, /^Middle$/);
    await page.keyboard.press('Space');
    await pressed(page, 'Middle');
  });

  it('has tabs with addresses of their own, for keyboard and history', async () => {
    const page = await stage.visit();
    const requests: string[] = [];
    page.on('request', (request) => requests.push(new URL(request.url()).pathname.split('/').at(-1) ?? ''));
    await openDevice(page, /LL-1/);
    await tabTo(page, /^Control$/);
    for (const key of ['End', 'ArrowRight', 'ArrowLeft', 'ArrowLeft']) await page.keyboard.press(key);
    expect(requests).not.toContain('guest-links');
    await page.keyboard.press('Space');
    await page
      .getByRole('region', { name: 'People' })
      .getByText(/^since /)
      .waitFor();
    expect(page.url()).toMatch(/\/sharing$/);
    await tabTo(page, /^Invite somebody$/);
    await page.goBack();
    await page.locator('[role=tab]:focus', { hasText: 'Control' }).waitFor();
    await page.goForward();
    await page.reload();
    await page.getByRole('region', { name: 'People' }).waitFor();
    expect(await page.getByRole('button', { name: 'Up', exact: true }).count()).toBe(0);
  });

  it.each(visitors)('keeps nobody out %s, and fits', async (_, visitor) => {
    const page = await stage.browser.open('/', visitor);
    expect(await findBarriers(page), 'sign-in').toEqual([]);
    await signIn(page, stage.owner);
    await page.getByRole('link', { name: /LL-1/ }).waitFor();
    for (const view of ['Table', 'Board']) {
      await press(page, view);
      await pressed(page, view);
      await page.getByRole('link', { name: /LL-1/ }).waitFor();
      expect(await findBarriers(page), view).toEqual([]);
      expect(await page.evaluate(cutNames)).toEqual([]);
    }
    const screens = {
      [`#/devices/${deviceId}`]: /LL-1/,
      '#/add': 'Add a device',
      '#/products': 'Products',
      '#/products/+': 'Create a product',
      [`#/products/${stage.productKey}`]: 'Servo switch',
      '#/settings': 'Settings',
      '#/settings/notices': 'Settings',
      '#/settings/webhooks': 'Settings',
      '#/settings/webhooks/+': 'Make a webhook',
      '#/notices': 'Notices',
    };
    for (const [hash, name] of Object.entries(screens)) {
      await page.evaluate(`location.hash = '${hash}'`);
      await page.getByRole('heading', { level: 1, name }).waitFor();
      await page.getByText('Loading…').first().waitFor({ state: 'hidden' });
      expect(await findBarriers(page), hash).toEqual([]);
    }
    await page.evaluate(`location.hash = '#/devices/${deviceId}'`);
    for (const name of ['Times', 'History', 'Sharing', 'Settings']) {
      await openTab(page, name);
      await page.getByRole('tabpanel', { name }).locator('.card').first().waitFor();
      expect(await findBarriers(page), name).toEqual([]);
    }
  });
});

/** Names in the list of devices of which a part cannot be seen. */
const cutNames = `[...document.querySelectorAll('.window a')]
  .filter((name) => {
    const cell = name.parentElement;
    const isBelow = name.getBoundingClientRect().bottom > cell.getBoundingClientRect().bottom + 1;
    return isBelow || name.scrollHeight > name.clientHeight + 1 || cell.scrollWidth > cell.clientWidth;
  })
  .map((name) => name.textContent)`;

/** Presses Tab until what has the focus says this. */
async function tabTo(page: Page, text: RegExp): Promise<void> {
  for (let presses = 0; presses < 40; presses += 1) {
    await page.keyboard.press('Tab');
    if (text.test(await page.evaluate<string>('document.activeElement.textContent.trim()'))) return;
  }
  throw new Error(`Tab does not reach ${text.source}`);
}
