// Schedules, their runs and leases in the console, in a real browser against the whole service, with a virtual device.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { VirtualDevice } from '../../dev/virtual-device.ts';
import { sendCommand } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, openDevice, openTab } from '../../rig/browser/console-visit.ts';

const visitor = {
  timezoneId: 'Europe/Berlin',
  permissions: ['geolocation'],
  geolocation: { latitude: 52.5234, longitude: 13.4114 },
};

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the times of a device', () => {
  let stage: Stage;
  let device: VirtualDevice;
  let param: { deviceId: string };
  let page: Page;

  beforeAll(async () => {
    stage = await Stage.open();
    device = stage.makeDevice('BLIND-1');
    const { deviceId } = await device.start();
    param = { deviceId };
    page = await stage.visit(visitor);
    await openDevice(page, /ND-1/);
    await openTab(page, 'Times');
  });
  afterAll(async () => {
    await device.stop();
    await stage.close();
  });
  afterEach(() => expect(stage.browser.problems.splice(0)).toEqual([]));

  const press = (name: string | RegExp) => page.getByRole('button', { name }).click();
  const part = (name: string) => page.getByRole('region', { name, exact: true });
  const api = () => stage.owner.api.devices[':deviceId'];
  const position = (name: string) => page.locator('.control').getByRole('button', { name, pressed: true });

  it('are made with the sun at the place of the browser, and the next runs are shown before', async () => {
    await part('Schedules').getByText('Nothing is scheduled yet.').waitFor();
    await press('Add a schedule');
    await page.getByLabel('What it does').selectOption('Down');
    await part('The next runs').getByRole('listitem').nth(4).waitFor();
    await page.getByLabel('When', { exact: true }).selectOption('At sunset');
    await part('The next runs').getByText('Fill in the form to see them.').waitFor();
    await page.getByLabel('Minutes after it; before it with −').fill('-20');
    await press('Take the place of this browser');
    for (const day of ['Sat', 'Sun']) await page.getByLabel(day, { exact: true }).uncheck();
    await expect.poll(() => page.getByLabel('Latitude').inputValue()).toBe('52.5');
    await part('The next runs').getByRole('listitem').nth(4).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    const boxOf = (name: string) => page.getByRole('button', { name }).boundingBox();
    const [save, close] = await Promise.all([boxOf('Save'), boxOf('Close')]);
    expect(close, 'in one row').toMatchObject({ y: save?.y });
    await press('Save');
    await part('Schedules').getByText('Weekdays at sunset −20 min: down').waitFor();
    expect((await dataOf(api().schedules.$get({ param, query: {} }))).list).toMatchObject([
      {
        at: { sun: 'sunset', offsetMinutes: -20, place: { latitude: 52.5, longitude: 13.4 } },
        ...{ days: ['mon', 'tue', 'wed', 'thu', 'fri'], zone: 'Europe/Berlin' },
        command: { action: 'toggle', position: 'down' },
      },
    ]);
  });

  it('are changed, with a word about a time that does not exist', async () => {
    await press(/^Change: /);
    expect(await page.getByLabel('Longitude').inputValue()).toBe('13.4');
    expect(await page.getByLabel('Sat', { exact: true }).isChecked()).toBe(false);
    await page.getByLabel('When', { exact: true }).selectOption('At a time of the day');
    await page.getByLabel('Time', { exact: true }).fill('02:30');
    for (const day of ['Sat', 'Sun']) await page.getByLabel(day, { exact: true }).check();
    await page.getByText('More', { exact: true }).click();
    await page.getByLabel('First day').fill('2027-03-28');
    await part('The next runs').getByText('02:30 does not exist on 2027-03-28 in Europe/Berlin').waitFor();
    await page.getByLabel('First day').fill('');
    await page.getByLabel('Not on these days').fill('2026-12-24 2026-12-25');
    await press('Save');
    await part('Schedules').getByText('Every day 02:30: down').waitFor();
    await part('Schedules').getByText('not on 24 Dec 2026, 25 Dec 2026').waitFor();
  });

  it('are paused and resumed, and run now, with the way of the command', async () => {
    await press(/^Pause: /);
    await part('Schedules')
      .getByText(/^paused/)
      .waitFor();
    await press(/^Run now: /);
    const runs = part('What became of them');
    await runs.getByText('confirmed by a report').waitFor();
    await press(/^How it went/);
    await page.getByRole('dialog').locator('.steps .done').getByText('confirmed').waitFor();
    await press('Close');
    await press(/^Resume: /);
    await part('Schedules')
      .getByText(/^next /)
      .waitFor();
  });

  it('come once by themselves, and leave their runs when they are deleted', async () => {
    const at = new Date(Date.now() + 4_000).toISOString();
    const json = { name: 'Guests', at, command: { action: 'toggle', position: 'up' } };
    await dataOf(api().schedules.$post({ param, json }));
    await page.reload();
    const runs = part('What became of them').getByRole('listitem');
    await part('Schedules')
      .getByText(/^Once on .*: up$/)
      .waitFor();
    await runs.filter({ hasText: 'Guests' }).getByText('confirmed by a report').waitFor();
    const over = part('Schedules').getByRole('listitem').filter({ hasText: 'no run is left' });
    await over.waitFor();
    expect(await over.getByRole('button').allTextContents()).toEqual(['Run now', 'Change', 'Delete']);
    await press(/^Delete: Every day/);
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await runs.filter({ hasText: 'A deleted schedule' }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
  });

  it('have a press for a while, which is ended at once', async () => {
    await openTab(page, 'Control');
    await page.getByText('Press it for a while').click();
    await page.getByLabel('Now', { exact: true }).selectOption('Middle');
    await press('Start');
    const lease = part('For a while');
    await lease
      .getByRole('timer')
      .getByText(/^Down in (30:00|29:\d\d)$/)
      .waitFor();
    await position('Middle').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await press('End now');
    await position('Down').waitFor();
    await lease.waitFor({ state: 'detached' });
  });

  it('pursue the end of a press while the device is away, until it is known', async () => {
    const lease = { seconds: 10, then: { action: 'toggle', position: 'down' } };
    await sendCommand(stage.owner.api, param, { action: 'toggle', position: 'up', lease });
    await part('For a while')
      .getByRole('timer')
      .getByText(/^Down in 0:(10|0\d)$/)
      .waitFor();
    await position('Up').waitFor();
    await device.stop();
    await part('For a while').getByText('Still not Down: trying again').waitFor();
    device = stage.makeDevice('BLIND-1');
    await device.start();
    await part('For a while').waitFor({ state: 'detached' });
    await position('Down').waitFor();
    await openTab(page, 'Times');
    const run = part('What became of them').getByRole('listitem').filter({ hasText: 'The end of “for a while”' });
    await run.getByText('confirmed by a report').waitFor();
  });
});
