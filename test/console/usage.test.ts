// The tab History of a device in the console, in a real browser against the whole service, with a virtual switch: a day, its month, a
// number over time.
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, openTab } from '../../rig/browser/console-visit.ts';

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
      await page.locator('.journey').getByText('Confirmed by a report').waitFor();
    }
    await openTab(page, 'History');
    hash = new URL(page.url()).hash;
  });
  afterAll(() => stage.close());
  afterEach(() => expect(stage.browser.problems.splice(0)).toEqual([]));

  const part = (name: string) => page.getByRole('region', { name, exact: true });
  /** How many points of its canvas have paint of a kind: of the colour of `on`, or another. */
  const unfold = (name: string) => part(name).getByText('In words').click();

  it('shows the day as it was, and says it', async () => {
    await part('One day').getByText(/On \d+ s, off \d+ s, not known .*2 presses: 2 by people\./).waitFor();
    await unfold('One day');
    const told = await part('One day').getByRole('listitem').allTextContents();
    console.log(told, await part('One day').locator('figcaption').textContent());
    await page.screenshot({ path: '/tmp/hist.png', fullPage: true });
  });
});
