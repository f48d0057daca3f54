// Finding devices in the console's list: by a beginning, by product, status and role, against the whole service.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { activate, addProduct } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, openDevice } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the list of devices', () => {
  let stage: Stage;
  let page: Page;
  let attic: string;

  beforeAll(async () => {
    stage = await Stage.open();
    const { api } = stage.owner;
    const lamps = await addProduct(stage.owner, { name: 'Lamp' });
    await activate(api, stage.productKey, 'DOOR-1');
    await activate(api, stage.productKey, 'DOOR-2');
    ({ deviceId: attic } = await activate(api, lamps, 'LAMP-1'));
    const renamed = { param: { deviceId: attic }, json: { name: 'Attic' } };
    await dataOf(api.devices[':deviceId'].$patch(renamed));
    const friend = await stage.signUp();
    const { deviceId } = await activate(friend.api, await addProduct(friend, { name: 'Gate' }), 'GATE-1');
    const json = { email: stage.owner.email, role: 'viewer' } as const;
    const { invitationId } = await dataOf(friend.api.devices[':deviceId'].members.$post({ param: { deviceId }, json }));
    await dataOf(api.invitations[':invitationId'].accept.$post({ param: { invitationId } }));
    page = await stage.visit();
  });
  afterAll(() => stage.close());
  afterEach(() => expect(stage.browser.problems.splice(0)).toEqual([]));

  async function expectNames(...names: string[]): Promise<void> {
    const shown = () => page.locator('.window').getByRole('link').allTextContents();
    await expect.poll(async () => (await shown()).toSorted()).toEqual(names.toSorted());
  }
  const doors = ['Servo switch OR-1', 'Servo switch OR-2'];
  const search = (text: string) => page.getByLabel('Search').fill(text);

  it('finds by name, serial number and id', async () => {
    await expectNames(...doors, 'Attic', 'Gate TE-1');
    await search('att');
    await expectNames('Attic');
    await search('door-');
    await expectNames(...doors);
    await search(attic);
    await expectNames('Attic');
    await search('servo switch or-2');
    await expectNames('Servo switch OR-2');
  });

  it('is as it was left when its user comes back from a device', async () => {
    await openDevice(page, /OR-2/);
    await page.getByRole('link', { name: 'All devices' }).click();
    await expectNames('Servo switch OR-2');
    expect(await page.getByLabel('Search').inputValue()).toBe('servo switch or-2');
  });

  it('is a table, too, which is remembered on this machine', async () => {
    const table = page.getByRole('table', { name: 'Devices' });
    await page.getByRole('button', { name: 'Table' }).click();
    await table.getByRole('cell', { name: 'Unknown' }).waitFor();
    await expectNames('Servo switch OR-2');
    await page.reload();
    await table.getByRole('row').nth(4).waitFor();
    await page.getByRole('button', { name: 'Board' }).click();
    await page.getByRole('listitem').nth(3).waitFor();
    expect(await table.count()).toBe(0);
    await search('servo switch or-2');
  });

  it('says that nothing fits, and shows all again', async () => {
    await search('no such device');
    await page.getByText('begins with “no such device”').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.getByRole('button', { name: 'Show all devices' }).click();
    await expectNames(...doors, 'Attic', 'Gate TE-1');
    expect(await page.getByLabel('Search').inputValue()).toBe('');
  });

  it('is filtered by what the device is to the user, with and without a search', async () => {
    await page.getByLabel('Your role').selectOption('viewer');
    await expectNames('Gate TE-1');
    await page.getByLabel('Your role').selectOption('owner');
    await expectNames(...doors, 'Attic');
    await page.getByLabel('Product').selectOption('Lamp');
    await expectNames('Attic');
    await search('door');
    await page.getByText('begins with “door”').waitFor();
    await page.getByRole('button', { name: 'Show all devices' }).click();
    await page.getByLabel('Status').selectOption('online');
    await page.getByText('No device fits these filters.').waitFor();
  });
});
