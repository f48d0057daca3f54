// One session in several tabs, and a session that ends, in a real browser.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { dataOf } from '../rig/api.ts';
import { browserMissing } from '../rig/browser.ts';
import { Stage } from '../rig/console-stage.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'a session in the console', () => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await Stage.open();
  });
  afterAll(() => stage.close());
  afterEach(() => {
    expect(stage.browser.problems.splice(0)).toEqual([]);
  });

  const isLive = (page: Page) => page.getByRole('status').filter({ hasText: 'Live' }).waitFor();
  const count = (page: Page, path: RegExp) => {
    const calls: string[] = [];
    page.on('request', (request) => path.test(request.url()) && calls.push(request.url()));
    return calls;
  };

  /** Each tab reads it at its start, and finds that the token ends now. */
  const letTokenEnd = (page: Page) =>
    page.evaluate(`{
      const kept = JSON.parse(localStorage.getItem('latchwork.tokens'));
      localStorage.setItem('latchwork.tokens', JSON.stringify({ ...kept, expiresAtMs: Date.now() }));
    }`);

  it('is renewed by one tab, and the others take what it got', async () => {
    const first = await stage.visit();
    const context = first.context();
    const tabs = [first, await stage.browser.openIn(context), await stage.browser.openIn(context)];
    for (const tab of tabs) await isLive(tab);
    const renewals = tabs.map((tab) => count(tab, /refresh-token$/));
    await letTokenEnd(first);
    await Promise.all(tabs.map((tab) => tab.reload()));
    for (const tab of tabs) await isLive(tab);
    expect(renewals.flat()).toHaveLength(1);
    await context.close();
  });

  it('is signed out in all tabs at once', async () => {
    const first = await stage.visit();
    const other = await stage.browser.openIn(first.context());
    await isLive(other);
    await first.getByRole('link', { name: 'Settings' }).click();
    await first.getByRole('button', { name: 'Sign out', exact: true }).click();
    for (const tab of [first, other]) await tab.getByRole('button', { name: 'Sign in' }).waitFor();
    await first.context().close();
  });

  it('that was ended elsewhere leads to the sign-in, with the reason', async () => {
    const page = await stage.visit();
    await dataOf(stage.owner.api.users.me.sessions.$delete({ query: {} }));
    // An access token is good until it ends; then the session has to be renewed.
    await letTokenEnd(page);
    await page.reload();
    await page.getByText('Your session has ended: it was signed out elsewhere').waitFor();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    // The browser notes the refused calls.
    expect(stage.browser.problems.splice(0).filter((problem) => !problem.includes('401'))).toEqual([]);
    await page.context().close();
  });
});
