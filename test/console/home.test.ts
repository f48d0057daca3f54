// Home Assistant in the console: a key with one press, the values with which a home connects, and its end. In a real browser against
// the whole service, with an MQTT client in the place of Home Assistant.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { VirtualDevice } from '../../dev/virtual-device.ts';
import { activate } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { HomeClient } from '../../rig/clients/home-client.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, openDevice, openTab } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'Home Assistant in the console', () => {
  let stage: Stage;
  let page: Page;
  let device: VirtualDevice;
  let home: HomeClient | undefined;
  const ids = { lamp: '', vent: '' };

  beforeAll(async () => {
    stage = await Stage.open();
    const { api } = stage.owner;
    device = stage.makeDevice('HOME-1');
    ids.lamp = (await device.start()).deviceId;
    ids.vent = (await activate(api, stage.productKey, 'HOME-2')).deviceId;
    await dataOf(api.devices[':deviceId'].$patch({ param: { deviceId: ids.lamp }, json: { name: 'Lamp' } }));
    page = await stage.visit();
  });
  afterAll(() => Promise.all([home?.leave(), device.stop(), stage.close()]));
  afterEach(async () => expect(await stage.browser.takeProblems()).toEqual([]));

  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  const values = () => page.getByRole('region', { name: 'What to type into Home Assistant' });
  const homes = () => page.getByRole('region', { name: 'Homes', exact: true });
  const openHomes = async () => {
    await page.getByRole('link', { name: 'Settings' }).click();
    await openTab(page, 'Home Assistant');
  };
  const valueOf = (label: string) =>
    values()
      .locator('.once')
      .filter({ has: page.getByText(label, { exact: true }) })
      .locator('code')
      .innerText();
  const connectAsShown = async () => {
    const [broker, port, path] = [await valueOf('Broker'), await valueOf('Port'), await valueOf('WebSocket path')];
    const key = { keyId: await valueOf('Username'), apiKey: await valueOf('Password') };
    home = await HomeClient.open(`ws://${broker}:${port}${path}`, key);
    await home.follow();
    return { home, key };
  };

  it('is connected by one press, with the values that the page shows', async () => {
    await openHomes();
    await homes().getByText('No home yet.').waitFor();
    await press('Connect Home Assistant');
    await page.locator('h2:focus', { hasText: 'What to type into Home Assistant' }).waitFor();
    const { home, key } = await connectAsShown();
    await home.untilState(ids.lamp, { outcome: null });
    await home.until('both devices', () => home.last(ids.vent, 'config') !== undefined);
    await values().getByText('You already run mosquitto').click();
    const login = `remote_username ${key.keyId}\nremote_password ${key.apiKey}\n`;
    expect(await valueOf('Lines of mosquitto.conf')).toContain(login);
    await page.getByText('This page was not loaded over https').waitFor();
    await homes().getByText('read, control · all devices and products').waitFor();
    await page.setViewportSize({ width: 320, height: 844 });
    expect(await findBarriers(page)).toEqual([]);
    await page.setViewportSize({ width: 1100, height: 800 });
    await press('Done');
    await page.locator('button:focus', { hasText: 'Connect Home Assistant' }).waitFor();
    await home.order(ids.lamp, 'set', 'up');
    await home.untilState(ids.lamp, { outcome: 'confirmed' });
    await openDevice(page, /^Lamp/);
    await page.getByText('by you, through Home Assistant').first().waitFor();
  });

  it('is disconnected', async () => {
    await openHomes();
    await press('Disconnect Home Assistant');
    await page.getByRole('dialog').getByRole('button', { name: 'Disconnect', exact: true }).click();
    await home?.mqtt.untilClosed();
    await homes().getByText('No home yet.').waitFor();
  });

  it('is connected to some devices alone, after the password was asked for', async () => {
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.getByLabel('Only these').check();
    await press('Connect Home Assistant');
    await page.getByText('Choose at least one device.').waitFor();
    await page.getByLabel('Lamp', { exact: true }).check();
    await page.getByText('Devices: 1 of at most 50 chosen').waitFor();
    await page.getByLabel('Name of the home').fill('holiday house');
    expect(await findBarriers(page)).toEqual([]);
    // The page's own answer: a session of five minutes ago would need five minutes.
    const refusal = { status: 403, json: { code: 403, message: 'confirmation_required', data: null } };
    await page.route('**/api/v1/users/api-keys', (route) => route.fulfill(refusal), { times: 1 });
    await press('Connect Home Assistant');
    await page.getByLabel('Your password').fill(stage.owner.password);
    await press('Go on');
    await homes().getByText('Home Assistant, holiday house').waitFor();
    expect(await stage.browser.takeProblems()).toEqual([expect.stringContaining('403')]);
    const { home } = await connectAsShown();
    await home.untilState(ids.lamp, { outcome: 'confirmed' });
    expect(home.mqtt.heard.filter(({ topic }) => topic.includes(ids.vent))).toEqual([]);
    await openTab(page, 'Account');
    await page.getByText('read, control · 1 device ·').waitFor();
  });
});
