// Groups and scenes in the console, in a real browser against the whole service: made, pressed, and what became of each device.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { VirtualDevice } from '../../dev/virtual-device.ts';
import { activate, addProduct, type Activation } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, openDevice, openTab, signIn, visitors } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'groups and scenes', () => {
  let stage: Stage;
  let page: Page;
  const devices: VirtualDevice[] = [];
  const ids: Record<string, string> = {};
  let groupId: string;
  let cellar: Activation;
  let refusing: MqttTestClient;

  beforeAll(async () => {
    stage = await Stage.open();
    const { api } = stage.owner;
    for (const name of ['Hall', 'Attic', 'Boiler']) {
      const device = stage.makeDevice(`${name}-1`);
      // The boiler is away.
      const isAway = name === 'Boiler';
      const { deviceId } = isAway ? await activate(api, stage.productKey, `${name}-1`) : await device.start();
      if (!isAway) devices.push(device);
      await dataOf(api.devices[':deviceId'].$patch({ param: { deviceId }, json: { name } }));
      ids[name] = deviceId;
    }
    page = await stage.visit();
  });
  afterAll(async () => {
    for (const device of devices) await device.stop();
    await stage.close();
  });
  afterEach(() => expect(stage.browser.problems.splice(0)).toEqual([]));

  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  const part = (name: string) => page.getByRole('region', { name, exact: true });
  const run = () => part('The last press, device by device');
  const item = (name: string) => run().getByRole('listitem').filter({ hasText: name });
  const open = (name: string) => page.getByRole('link', { name, exact: true }).click();
  const runSays = (text: RegExp) => run().getByRole('status').filter({ hasText: text }).waitFor();

  it('have a group made of devices that are picked, and count what is true of them', async () => {
    await open('Groups');
    await page.getByRole('heading', { name: 'No group yet' }).waitFor();
    await press('Make a group');
    await page.getByLabel('Name', { exact: true }).fill('Upper floor');
    await press('Save');
    await page.getByText('Choose at least one device.').waitFor();
    for (const name of ['Hall', 'Attic', 'Boiler']) await page.getByLabel(name, { exact: true }).check();
    expect(await findBarriers(page)).toEqual([]);
    await press('Save');
    await page.getByRole('heading', { level: 1, name: 'Upper floor' }).waitFor();
    await part('Its devices now').getByText('1 offline').waitFor();
  });

  it('tell of each device what became of the press, and why', async () => {
    cellar = await activate(stage.owner.api, stage.productKey, 'CELLAR-1');
    const { mqtt, topics, deviceId } = cellar;
    refusing = await MqttTestClient.ofDevice(`mqtt://${mqtt.server}:${mqtt.port}`, cellar);
    await refusing.client.subscribeAsync(topics.propertySet, { qos: 1 });
    const other = await stage.signUp();
    const foreign = await activate(other.api, await addProduct(other), 'FOREIGN-1');
    groupId = page.url().split('/').at(-1) ?? '';
    const json = { deviceIds: [deviceId, ...Object.values(ids), foreign.deviceId] };
    await dataOf(stage.owner.api.groups[':groupId'].$patch({ param: { groupId }, json }));
    await page.getByRole('link', { name: 'All groups' }).click();
    const card = page.getByRole('listitem').filter({ hasText: 'Upper floor' });
    await card.getByText('1 not yours to see').waitFor();
    await card.getByRole('button', { name: 'Down', exact: true }).click();
    const { id } = (await refusing.untilHeard(topics.propertySet)) as { id: string };
    const reply = { method: 'thing.service.property.set_reply', id, code: 500 };
    await refusing.client.publishAsync(topics.propertyPost, JSON.stringify(reply), { qos: 1 });
    await runSays(/^Over 5 devices: 2 confirmed by a report, .*1 refused by the device, 1 not sent/);
    for (const name of ['Hall', 'Attic']) {
      await item(name).getByText('confirmed by a report').waitFor();
      await item(name).locator('.steps .done').getByText('confirmed').waitFor();
    }
    await run().getByText('refused by the device: the switch answered with an error (500)').waitFor();
    await item('Boiler')
      .getByText(/^(not delivered|without an answer in time|not known): /)
      .waitFor();
    await item(foreign.deviceId).getByText('not sent: you may not press this device').waitFor();
    await part('Its devices now').getByText('2 down').waitFor();
    await part('Its devices now').getByText('you may not press this device').waitFor();
    await page.reload();
    await runSays(/2 confirmed by a report/);
  });

  it('are held back and let go on', async () => {
    // One after the other: the first hears it and says nothing for ten seconds, the boiler as well.
    const json = { groupId, command: { action: 'toggle', position: 'up' }, maxInFlight: 1 };
    const { bulkId } = await dataOf(stage.owner.api.commands.$post({ json }));
    await page.evaluate(`location.hash = '#/groups/${groupId}/${bulkId}'`);
    await press('Pause');
    await runSays(/^Paused 5 devices: [1-4] not begun, /);
    await run().getByText('not begun', { exact: true }).first().waitFor();
    await press('Go on');
    await runSays(/^(Under way|Over) 5 devices: /);
    await refusing.client.endAsync();
    await dataOf(stage.owner.api.devices[':deviceId'].$delete({ param: cellar }));
  });

  it('are found by a tag, renamed and deleted', async () => {
    await open('Devices');
    await page.getByRole('heading', { level: 1, name: 'Devices' }).waitFor();
    await openDevice(page, /^Attic/);
    await openTab(page, 'Settings');
    await page.getByLabel('Tags').fill('roof, by the stairs');
    await press('Save tags');
    await page.getByText('Saved.').waitFor();
    await open('Devices');
    await page.getByLabel('Tag', { exact: true }).fill('roof');
    await page.getByText('1 device', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Attic' }).waitFor();
    await open('Groups');
    await press('Make a group');
    await page.getByLabel('Name', { exact: true }).fill('Under the roof');
    await page.getByLabel('All with a tag').check();
    await page.getByLabel('Tag', { exact: true }).fill('roof');
    await press('Save');
    await part('Its devices now').getByText('1 up').waitFor();
    await press('Change');
    await page.getByLabel('Name', { exact: true }).fill('Roof');
    await press('Save');
    await page.getByRole('heading', { level: 1, name: 'Roof', exact: true }).waitFor();
    await press('Delete');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await open('Upper floor');
    expect(await page.getByRole('heading', { name: 'Roof' }).count()).toBe(0);
  });

  it('have a scene that says who did not do it, and puts the others back', async () => {
    await open('Groups');
    await openTab(page, 'Scenes');
    await press('Make a scene');
    await page.getByLabel('Name', { exact: true }).fill('Evening');
    for (const name of ['Hall', 'Boiler']) await page.getByLabel(name, { exact: true }).check();
    await page.getByLabel('What Hall does').selectOption('Move it down');
    await page.getByLabel('Seconds in which').fill('20');
    await page.getByLabel('If one does not confirm').check();
    expect(await findBarriers(page)).toEqual([]);
    await press('Save');
    await part('What it does').getByText('Hall: Down').waitFor();
    await press('Run Evening');
    await page.getByText('Not complete. Without a confirmation within 20 s: Boiler.').waitFor();
    await part('Put back to where they were').getByText('confirmed by a report').waitFor();
    const { status } = stage.owner.api.devices[':deviceId'];
    const hall = await dataOf(status.$get({ param: { deviceId: ids['Hall'] ?? '' } }));
    expect(hall.position).toBe('up');
    await press('Change');
    await page.getByRole('dialog').getByLabel('Boiler', { exact: true }).uncheck();
    await press('Save');
    await part('What it does').getByText('Boiler').waitFor({ state: 'detached' });
    await press('Run Evening');
    await page.getByText('Complete: each device did it.').waitFor();
  });

  it.each(visitors)('keep nobody out %s, and fit', async (_, visitor) => {
    const other = await stage.browser.open('/', visitor);
    await signIn(other, stage.owner);
    const group = other.getByRole('heading', { level: 2, name: 'Upper floor' });
    const scene = other.getByRole('heading', { level: 2, name: 'Evening' });
    for (const [tab, heading] of [
      ['groups', group],
      ['scenes', scene],
    ] as const) {
      await other.evaluate(`location.hash = '#/${tab}'`);
      await heading.waitFor();
      expect(await findBarriers(other), tab).toEqual([]);
      await heading.getByRole('link').click();
      await other.getByRole('heading', { level: 1 }).waitFor();
      await other.getByRole('button', { name: tab === 'groups' ? 'Middle' : 'Run Evening', exact: true }).click();
      await other.getByText('Over', { exact: true }).waitFor();
      expect(await findBarriers(other), `a run of ${tab}`).toEqual([]);
      await other.getByRole('button', { name: 'Change', exact: true }).click();
      await other.getByRole('dialog').getByLabel('Hall', { exact: true }).waitFor();
      expect(await findBarriers(other), `the form of ${tab}`).toEqual([]);
    }
    await other.context().close();
  });
});
