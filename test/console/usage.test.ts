// The tab History of a device in a real browser against the whole service, with a virtual switch that was moved: the day, its month, a
// number over time, in pictures and in words.
import { text } from 'node:stream/consumers';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sendCommand } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, openTab, visitors } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the history of a device', () => {
  let stage: Stage;
  let page: Page;
  let hash: string;

  beforeAll(async () => {
    stage = await Stage.open();
    page = await stage.visit({ timezoneId: 'Europe/Berlin' });
    await page.getByRole('button', { name: 'Make a virtual switch' }).click();
    await page.locator('.device-head').getByText('Online').waitFor();
    for (const name of ['Up', 'Down']) {
      await page.locator('.control').getByRole('button', { name, exact: true }).click();
      await page.locator('.control').getByRole('button', { name, exact: true, pressed: true }).waitFor();
      await page.locator('.journey').getByText('Confirmed by a report').waitFor();
    }
    await openTab(page, 'History');
    hash = new URL(page.url()).hash;
  });
  afterAll(() => stage.close());
  afterEach(() => expect(stage.browser.problems.splice(0)).toEqual([]));

  const part = (name: string) => page.getByRole('region', { name, exact: true });
  const said = (name: string, words: RegExp) => part(name).locator('figcaption').getByText(words).waitFor();
  const facts = (name: string) => part(name).locator('details li').allTextContents();
  const dateField = () => part('One day').getByLabel('One day', { exact: true });
  const over = (name: string) => part(name).locator('.u-over');

  async function download(name: string): Promise<string[]> {
    const saved = page.waitForEvent('download');
    await part(name).getByRole('button', { name: 'Download as CSV' }).click();
    return (await text(await (await saved).createReadStream())).split('\r\n');
  }

  /** How much of a line across the middle of the day is painted, from 0 to 1. */
  const paintedShare = () =>
    page.evaluate<number>(`(() => {
      const canvas = document.querySelector('.chart canvas');
      const { offsetLeft, offsetTop, clientWidth, clientHeight } = document.querySelector('.chart .u-over');
      const [left, top, width] = [offsetLeft, offsetTop + clientHeight / 2, clientWidth].map((length) =>
        Math.round(length * devicePixelRatio));
      const { data } = canvas.getContext('2d').getImageData(left, top, width, 1);
      return data.filter((value, index) => index % 4 === 3 && value > 100).length / width;
    })()`);

  it('shows how long it was on and off today, hatches the time before, and says the same', async () => {
    await said('One day', /: On \d.*, off \d.*, not known \d.*\. 2 presses: 2 by people\.$/);
    await part('One day').getByText('In words: ').click();
    expect(await facts('One day')).toEqual([
      expect.stringMatching(/^00:00:00 to [\d:]{8}: not known$/),
      expect.stringMatching(/: on$/),
      expect.stringMatching(/: off$/),
    ]);
  });

  it('shows the days of the month, each of which opens', async () => {
    await said('One month', /: On \d.*, off \d.*, not known .* 2 presses: 2 by people\.$/);
    const { length } = await facts('One month');
    const today = await dateField().inputValue();
    expect(length).toBe(Number(today.slice(-2)));
    const { width, height } = (await over('One month').boundingBox()) ?? { width: 0, height: 0 };
    const bar = (date: number) => ({ position: { x: (width * (date - 0.5)) / length, y: height / 2 } });
    await over('One month').hover(bar(length));
    await said('One month', /2 presses/);
    await page.getByRole('button', { name: 'Previous day' }).click();
    await said('One day', /: On 0 s, off 0 s, not known 24 h\. No presses\.$/);
    const hatched = await paintedShare();
    expect([hatched > 0.1, hatched < 0.7], `${hatched}`).toEqual([true, true]);
    await over('One month').click(bar(length));
    await said('One day', /2 presses/);
    expect(await dateField().inputValue()).toBe(today);
    await page.getByLabel('Month', { exact: true }).selectOption({ index: 1 });
    await said('One month', /No presses\.$/);
    await over('One month').click({ position: { x: 2, y: 20 } });
    await said('One day', /, 1 .* No presses\.$/i);
    await dateField().fill(today);
    await said('One day', /2 presses/);
    const lines = await download('One month');
    expect(lines[0]).toBe(
      'from,to,zone,seconds,onSeconds,offSeconds,unknownSeconds,person,key,schedule,scene,hand,failures',
    );
    expect(lines.length).toBeGreaterThanOrEqual(29);
  });

  it('shows a number for a day, a week and a month', async () => {
    const property = page.getByLabel('Number', { exact: true });
    expect(await property.locator('option').allTextContents()).toEqual(['angle', 'power']);
    await property.selectOption('power');
    for (const span of ['day', 'week', 'month']) {
      await page.getByLabel('Time', { exact: true }).selectOption(span);
      await said('A number over time', /^power: 0 to 42, mean [\d.]+, \d reports\.$/);
      expect(await facts('A number over time')).toEqual([
        expect.stringMatching(/: 0 to 42, mean [\d.]+, \d reports\.$/),
      ]);
    }
    expect(await download('A number over time')).toEqual([
      'at,least,greatest,mean,last,count',
      expect.stringMatching(/Z,0,42,/),
      '',
    ]);
  });

  it('follows the device while it is looked at and pointed at', async () => {
    const { list } = await dataOf(stage.owner.api.devices.$get({ query: {} }));
    await over('One day').hover({ position: { x: 2, y: 5 } });
    await sendCommand(stage.owner.api, { deviceId: list[0]?.deviceId ?? '' }, { action: 'toggle', position: 'up' });
    await expect.poll(() => facts('One day').then(({ length }) => length)).toBe(4);
    await said('One day', /^00:00:00 to [\d:]{8}: not known$/);
    await page.mouse.move(0, 0);
    await said('One day', /3 presses: 3 by people\.$/);
  });

  it('says which days are counted, and leads its owner to the zone', async () => {
    await page.getByText('Days are those of UTC.').waitFor();
    await page.getByRole('link', { name: 'Change the zone' }).click();
    await page.getByLabel('Time zone of your days').selectOption('Europe/Berlin');
    await page.getByRole('button', { name: 'Save the zone' }).click();
    await page.getByText('Saved.').waitFor();
    expect(await dataOf(stage.owner.api.users.me.zone.$get())).toEqual({ zone: 'Europe/Berlin' });
    await page.goBack();
    await page.getByText('From the next day on, they are those of Europe/Berlin.').waitFor();
  });

  it.each(visitors)('keeps nobody out %s, and fits', async (_, visitor) => {
    const former = page;
    page = await stage.visit(visitor);
    await page.evaluate(`location.hash = '${hash}'`);
    for (const name of ['One day', 'One month', 'A number over time']) await part(name).getByText('In words: ').click();
    expect(await findBarriers(page)).toEqual([]);
    await page.context().close();
    page = former;
  });
});
