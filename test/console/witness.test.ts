// "How do you know it worked?" in the console, in a real browser, with virtual switches and the lamps behind them.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, visitors } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the witness of a device', () => {
  let stage: Stage;
  let page: Page;
  let first: string;
  let second: string;

  beforeAll(async () => {
    stage = await Stage.open();
    page = await stage.visit();
    first = await makeSwitch();
  });
  afterAll(() => stage.close());
  afterEach(() => expect(stage.browser.problems.splice(0)).toEqual([]));

  const press = (name: string | RegExp) => page.getByRole('button', { name, exact: true }).click();
  const part = () => page.getByRole('region', { name: 'How do you know it worked?' });
  const tried = (text: string | RegExp) => part().getByRole('status').getByText(text).waitFor();
  const seen = (text: RegExp) => page.locator('.sides div', { hasText: 'Seen last' }).getByText(text).waitFor();
  const lamp = () => page.getByRole('group', { name: 'The lamp behind it' });

  /** @returns the address of its page, which is open */
  async function makeSwitch(): Promise<string> {
    await page.getByRole('link', { name: 'Devices', exact: true }).click();
    await press('Make a virtual switch');
    await page.locator('.device-head').getByText('Online').waitFor();
    await lamp().getByText('Off, power 0 W').waitFor();
    return new URL(page.url()).hash;
  }

  async function goTo(hash: string): Promise<void> {
    await page.evaluate(`location.hash = '${hash}'`);
    await page.locator('.device-head').getByText('Online').waitFor();
    await part().waitFor();
  }

  it('is a reading of the device, and is tried: it sees each press but the fifth, which the lamp ignores', async () => {
    await part().getByText('something else has to see').waitFor();
    await press('Set it up');
    await page.getByLabel('Reading', { exact: true }).selectOption('power');
    await page.getByText('Now: 0').waitFor();
    await page.getByLabel('Then it is').selectOption('Pressed');
    await page.getByLabel('Seconds in which it has to be seen').fill('15');
    expect(await findBarriers(page)).toEqual([]);
    await press('Save');
    await part().getByText('It is “pressed” if its power changes, within 15 s.').waitFor();
    await page.getByLabel('Ignores every fifth press of the switch').check();
    for (const position of ['Down', 'Up', 'Down', 'Up']) {
      await press(`Try it: ${position}`);
      await tried(/^Witnessed: pressed, seen by its own reading after [\d,]+ ms\.$/);
      await page.locator('.journey .steps .done').getByText('witnessed').waitFor();
      await page.locator('.journey').getByText('Confirmed by a report').waitFor();
    }
    await lamp().getByText('Off, power 0 W').waitFor();
    await press('Try it: Down');
    await tried(/^Waiting until /);
    await tried('Not witnessed: pressed: nobody saw it in time.');
    await page.locator('.journey').getByText('Confirmed by a report').waitFor();
    await lamp().getByText('Off, power 0 W').waitFor();
  });

  it('is a reading that has to be above a value, and shows what is so beside what was reported', async () => {
    await press('Change');
    await page.getByLabel('Which', { exact: true }).selectOption('is above');
    await page.getByLabel('Value', { exact: true }).fill('20');
    await page.getByLabel('Then it is').selectOption('On');
    await press('Save');
    await part().getByText('It is “on” if its power is above 20, within 15 s.').waitFor();
    await press('Press the lamp by hand');
    await seen(/^\d\d:\d\d:\d\d by its own reading \(42\), /);
    await press('Press the lamp by hand');
    await seen(/ \(0\), /);
    await press('Try it: Up');
    await tried(/^Witnessed: on, /);
    await lamp().getByText('On, power 42 W').waitFor();
    await page.getByRole('link', { name: 'All devices' }).click();
    await page
      .getByRole('listitem')
      .getByText(/^on, seen /)
      .waitFor();
  });

  it('is a reading of another device, which is named', async () => {
    second = await makeSwitch();
    await press('Set it up');
    await page.getByLabel('A reading of another device of mine').check();
    await page.getByLabel('Reading', { exact: true }).selectOption('power');
    await page.getByLabel('Value', { exact: true }).fill('20');
    await page.getByLabel('Seconds in which it has to be seen').fill('200');
    await press('Save');
    await part()
      .getByText(/^It is “on” if power of .* is above 20, within 200 s\./)
      .waitFor();
    await goTo(first);
    await press('Press the lamp by hand');
    await goTo(second);
    await press('Try it: Down');
    await tried(/^Waiting until /);
    await goTo(first);
    await press('Press the lamp by hand');
    await goTo(second);
    await page
      .locator('.journey')
      .getByText(/^Witnessed: on, seen by (?!dev_).+ after/)
      .waitFor();
  });

  it('is a check-in at a link that is shown once, and is removed', async () => {
    await press('Change');
    await page.getByLabel('A check-in link').check();
    await press('Save');
    const link = await part().locator('.once code').first().textContent();
    await part().getByText(`curl -fsS -X POST "${link}"`).waitFor();
    await press('Try it: Up');
    await tried(/^Waiting until /);
    expect((await fetch(link ?? '', { method: 'POST' })).status).toBe(204);
    await tried(/^Witnessed: on, seen by a check-in after /);
    await page.reload();
    await part().getByText('if somebody checks in at its link').waitFor();
    expect(await part().locator('.once').count()).toBe(0);
    await press('Remove');
    await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await part().getByText('something else has to see').waitFor();
    await page.locator('.sides').getByText('Seen last').waitFor({ state: 'detached' });
  });

  it.each(visitors)('keeps nobody out %s, and fits', async (_, visitor) => {
    const former = page;
    page = await stage.visit(visitor);
    await page.evaluate(`location.hash = '${first}'`);
    await page.locator('.sides').getByText('Seen last').waitFor();
    await part().getByText('It is “on”').waitFor();
    await press('Change');
    await page.getByLabel('Value', { exact: true }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.context().close();
    page = former;
  });
});
