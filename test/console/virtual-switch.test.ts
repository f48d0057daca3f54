// The virtual switch in the page: a newcomer's first minute without hardware, in a real browser, connected to the device's
// own object.
import type { Page, Route } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sendCommand } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { makeMaker } from '../../rig/clients/firmware.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { openTab } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the virtual switch', () => {
  let stage: Stage;
  let page: Page;

  beforeAll(async () => {
    stage = await Stage.open();
    page = await stage.visit();
  });
  afterAll(() => stage.close());
  afterEach(() => expect(stage.browser.problems.splice(0)).toEqual([]));

  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  const control = (name: string) => page.locator('.control').getByRole('button', { name, exact: true });
  const headSays = (text: string) => page.locator('.device-head').getByText(text).waitFor();

  it('is made, pressed and confirmed', async () => {
    await press('Make a virtual switch');
    await headSays('Online');
    await control('Down').click();
    await page.locator('.journey').getByText('Confirmed by a report').waitFor();
    await page.getByRole('img', { name: 'A switch in the position Down' }).waitFor();
  });

  it('moves by hand, which the service hears', async () => {
    await press('Hand: Middle');
    await control('Middle').and(page.locator('[aria-pressed=true]')).waitFor();
    await page.locator('.journey').getByText('The device has reported something else since.').waitFor();
  });

  it('takes new firmware, though its power is cut in the midst', async () => {
    const { url, owner } = stage;
    const deviceId = page.url().split('/').at(-1) ?? '';
    const { productKey } = await dataOf(owner.api.devices[':deviceId'].$get({ param: { deviceId } }));
    const maker = await makeMaker(url, owner, productKey);
    const image = Uint8Array.from({ length: 20_000 }, (_, at) => at % 251);
    await maker.addFirmware('1.1.0', image);
    await page.getByLabel('Firmware 1.0.0. Its next update').selectOption('cut');
    await maker.startCampaign({ version: '1.1.0', waves: [{ devices: [deviceId] }] });
    await page.getByLabel('Firmware 1.1.0. Its next update').waitFor();
    const read = () => dataOf(owner.api.devices[':deviceId'].firmware.$get({ param: { deviceId } }));
    await expect.poll(async () => (await read()).update?.state).toBe('proved');
  });

  it('lies, and is not believed, and a newer command stays when this one ends later', async () => {
    await page.getByLabel('Lies: it says that it moved, and does not').check();
    await control('Up').click();
    await page.locator('.journey').getByText('Acknowledged by the device').waitFor();
    expect(await control('Up').getAttribute('aria-pressed')).toBe('false');
    await page.getByLabel('Lies: it says that it moved, and does not').uncheck();
    const newer = page.locator('.sides').getByText('Down by you').waitFor();
    await page.route('**/commands/*', async (route) => {
      await newer;
      const response = await route.fetch();
      const { data, ...envelope } = (await response.json()) as { data: object };
      await route.fulfill({ response, json: { ...envelope, data: { ...data, state: 'expired' } } });
    });
    const deviceId = page.url().split('/').at(-1) ?? '';
    await sendCommand(stage.owner.api, { deviceId }, { action: 'toggle', position: 'down' });
    await newer;
    await openTab(page, 'History');
    await page.locator('.timeline .command').getByText('No answer in time').waitFor();
    await openTab(page, 'Control');
    await page.locator('.sides').getByText('Down by you').waitFor();
    await page.locator('.journey').getByText('Confirmed by a report').waitFor();
    await page.unroute('**/commands/*');
  });

  it('refuses, which ends the command with what it answered', async () => {
    await page.getByLabel('Refuses: it answers with an error').check();
    await control('Up').click();
    await page.locator('.journey').getByText('Refused by the device').waitFor();
    await page.locator('.journey').getByText('the switch answered with an error (500)').waitFor();
    expect(await control('Up').getAttribute('aria-pressed')).toBe('false');
    await openTab(page, 'History');
    await page.locator('.timeline .command').getByText('Refused by the device').first().waitFor();
    await openTab(page, 'Control');
    await page.getByLabel('Refuses: it answers with an error').uncheck();
  });

  it('is slow, which is not taken for done', async () => {
    await page.getByLabel('Slow: it obeys after 3 seconds').check();
    await control('Up').click();
    await page.locator('.journey').getByText('On its way').waitFor();
    expect(await control('Up').getAttribute('aria-pressed')).toBe('false');
    await page.locator('.journey').getByText('Confirmed by a report').waitFor();
    await page.getByLabel('Slow: it obeys after 3 seconds').uncheck();
  });

  it('is pressed on its tile, which says what is known of it and no more', async () => {
    const tile = page.getByRole('listitem');
    const onTile = (name: string) => tile.getByRole('button', { name, exact: true });
    const slow = page.getByLabel('Slow: it obeys after 3 seconds');
    const refuses = page.getByLabel('Refuses: it answers with an error');
    await slow.check();
    await page.getByRole('link', { name: 'All devices' }).click();
    await onTile('Middle').click();
    await tile.getByText('On its way').waitFor();
    expect(await onTile('Middle').getAttribute('aria-pressed')).toBe('false');
    await tile.getByText('Confirmed by a report').waitFor();
    await onTile('Middle').and(page.locator('[aria-pressed=true]')).waitFor();
    await page.goBack();
    await slow.uncheck();
    await refuses.check();
    await page.goForward();
    await onTile('Up').click();
    await tile.getByText('Refused by the device: the switch answered with an error (500)').waitFor();
    expect(await onTile('Up').getAttribute('aria-pressed')).toBe('false');
    await page.goBack();
    await refuses.uncheck();
    await press('Pull the plug');
    await headSays('Offline');
    await page.goForward();
    await tile.getByText('Offline').waitFor();
    expect(await onTile('Up').isDisabled()).toBe(true);
    await page.goBack();
    await press('Plug it in');
    await headSays('Online');
  });

  it('has its plug pulled, also as soon as it is in, which is shown with the reason, and comes back', async () => {
    await press('Pull the plug');
    await headSays('Offline');
    expect(await control('Up').isDisabled()).toBe(true);
    await openTab(page, 'History');
    await page.locator('.timeline .offline').getByText('connection lost').first().waitFor();
    await openTab(page, 'Control');
    await page.evaluate(`void (globalThis.pulled = new Promise((resolve) => new MutationObserver((_, changes) => {
      if (document.querySelector('.switch [role=status]').textContent !== 'Plugged in') return;
      changes.disconnect();
      document.querySelector('.switch .danger').click();
      setTimeout(resolve, 100);
    }).observe(document.body, { subtree: true, childList: true, characterData: true })))`);
    await press('Plug it in');
    await page.evaluate('pulled');
    await press('Plug it in');
    await headSays('Online');
  });

  it('is plugged in in one tab, and the other says so', async () => {
    const other = await stage.browser.openIn(page.context(), `/${new URL(page.url()).hash}`);
    await other.getByText('Plugged in in another tab').waitFor();
    await press('Pull the plug');
    await other.getByRole('button', { name: 'Plug it in' }).click();
    await other.getByText('Plugged in', { exact: true }).waitFor();
    await press('Plug it in');
    await page.getByText('Plugged in in another tab').waitFor();
    await other.close();
    await press('Plug it in');
    await headSays('Online');
  });

  it('is the same device after a reload', async () => {
    // Until it is read what was asked for, the page does not say that it was nothing.
    const hold = async (route: Route): Promise<void> => {
      await page.locator('.sides').getByText('Loading…').waitFor();
      await route.continue();
    };
    await page.route('**/commands?*', hold, { times: 1 });
    await page.reload();
    await headSays('Offline');
    await page.locator('.sides').getByText('Up by you').waitFor();
    await press('Plug it in');
    await headSays('Online');
    await control('Up').click();
    await page.locator('.journey').getByText('Confirmed by a report').waitFor();
  });
});
