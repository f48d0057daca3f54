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
    const tags = page.locator('.opblock-tag');
    await tags.filter({ hasText: 'Reference' }).waitFor();
    const names = (await tags.allInnerTexts()).map((text) => text.split('\n')[0]);
    expect(names.slice(0, 3)).toEqual(['Signing in', 'Devices', 'Commands']);
    await page.getByLabel('Search').fill('REVOKE guest');
    const calls = page.locator('.opblock-summary');
    await expect.poll(() => calls.allInnerTexts()).toEqual([expect.stringContaining('Revoke a guest link')]);
    await page.getByLabel('Search').fill('');
    await expect.poll(() => calls.count()).toBeGreaterThan(50);
    expect(stage.browser.problems).toEqual([]);
  });
});
