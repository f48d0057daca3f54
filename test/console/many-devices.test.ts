// A list of ten thousand devices in a real browser: its first two thousand are scrolled through.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';

const devices = 10_000;
const atOnce = 1_000;
const scrolledThrough = 2_000;

describe.skipIf(browserMissing !== null)(browserMissing ?? 'a list of ten thousand devices', () => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await Stage.open();
    const param = { productKey: stage.productKey };
    for (let first = 0; first < devices; first += atOnce) {
      const serials = Array.from({ length: atOnce }, (_, index) => `MANY-${String(first + index).padStart(5, '0')}`);
      await dataOf(stage.owner.api.products[':productKey'].serials.$post({ param, json: { serials } }));
    }
  });
  afterAll(() => stage.close());

  it.each(['Board', 'Table'])(
    'is counted at once, read as it is scrolled, and holds few in the page: %s',
    async (view) => {
      const page = await stage.visit();
      await page.getByRole('button', { name: view }).click();
      await page.getByText('10,000 devices').waitFor();
      const items = page.locator('.window > *');
      await items.filter({ hasText: 'Servo switch ' }).first().waitFor();
      const shown = () => items.allInnerTexts();
      const first = (await shown()).find((text) => text.includes('Servo switch '));
      // Scrolls to the end of the loaded list, again and again.
      const place = view === 'Board' ? 'aria-posinset' : 'aria-rowindex';
      const lastIndex = `Number(document.querySelector('.window > :last-child').getAttribute('${place}'))`;
      while ((await page.evaluate<number>(lastIndex)) < scrolledThrough) {
        await page.evaluate('scrollTo(0, document.body.scrollHeight)');
        await page.waitForTimeout(20);
      }
      expect(await items.count()).toBeLessThan(100);
      const last = (await shown()).findLast((text) => text.includes('Servo switch '));
      expect(last).not.toBe(first);
      await page.evaluate('scrollTo(0, 0)');
      await page
        .getByText(first?.split('\n')[0] ?? '')
        .first()
        .waitFor();
      expect(stage.browser.problems).toEqual([]);
      await page.context().close();
    },
  );
});
