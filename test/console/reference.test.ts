// The page of the interface at /docs, in a real browser: what it begins with, and its search.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the page of the interface', () => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await Stage.open();
  });
  afterAll(() => stage.close());

  it('begins with what people use first, and finds calls by words of path and summary', async () => {
    const page = await stage.browser.open('/docs');
    // Swagger UI renders what is in view alone.
    const tag = (name: string) => page.locator('.opblock-tag').filter({ hasText: name });
    await tag('Signing in').waitFor();
    expect(await page.locator('.opblock-tag').first().innerText()).toMatch(/^Signing in/);
    const scrollTo = (name: string) =>
      expect.poll(async () => {
        await page.mouse.wheel(0, 400);
        return tag(name).isVisible();
      });
    await scrollTo('Devices').toBe(true);
    await scrollTo('Reference').toBe(true);
    await page.getByLabel('Search').fill('REVOKE guest');
    const calls = page.locator('.opblock-summary');
    await expect.poll(() => calls.allInnerTexts()).toEqual([expect.stringContaining('Revoke a guest link')]);
    await page.getByLabel('Search').fill('');
    await expect.poll(() => calls.count()).toBeGreaterThan(3);
    expect(stage.browser.problems).toEqual([]);
  });
});
