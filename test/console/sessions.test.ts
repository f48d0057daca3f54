// One session in several tabs, and a session that ends, in a real browser.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'a session in the console', () => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await Stage.open();
  });
  afterAll(() => stage.close());
  afterEach(async () => expect(await stage.browser.leave()).toEqual([]));

  const isLive = (page: Page) => page.getByRole('status').filter({ hasText: 'Live' }).waitFor();
  const letTokenEnd = (page: Page) =>
    page.evaluate(`{
      const kept = JSON.parse(localStorage.getItem('latchwork.tokens'));
      localStorage.setItem('latchwork.tokens', JSON.stringify({ ...kept, expiresAtMs: Date.now() }));
    }`);

  it('is renewed by one tab at a time, and goes on in all of them', async () => {
    const first = await stage.visit();
    const context = first.context();
    const tabs = [first, await stage.browser.openIn(context), await stage.browser.openIn(context)];
    for (const tab of tabs) await isLive(tab);
    const othersWait = Promise.withResolvers<undefined>();
    let underWay = 0;
    const renewals: { underWay: number; refreshToken: string }[] = [];
    await context.route(/refresh-token$/, async (route) => {
      underWay += 1;
      await othersWait.promise;
      const response = await route.fetch();
      const { data } = (await response.json()) as { data: { refreshToken: string } };
      renewals.push({ underWay, refreshToken: data.refreshToken });
      underWay -= 1;
      await route.fulfill({ response });
    });
    for (const tab of tabs) await letTokenEnd(tab);
    await Promise.all(tabs.map((tab) => tab.reload()));
    const waitingTabs = () => first.evaluate<number>('navigator.locks.query().then(({ pending }) => pending.length)');
    await vi.waitFor(async () => expect(await waitingTabs()).toBe(2));
    othersWait.resolve(undefined);
    for (const tab of tabs) await isLive(tab);
    // A tab that does not see yet what another one has stored renews once more, and gets the same refresh token.
    const { refreshToken } = renewals[0]!;
    expect(renewals).toEqual(renewals.map(() => ({ underWay: 1, refreshToken })));
    for (const tab of tabs) {
      const kept = () => tab.evaluate<string>(`JSON.parse(localStorage.getItem('latchwork.tokens')).refreshToken`);
      await vi.waitFor(async () => expect(await kept()).toBe(refreshToken));
    }
  });

  it('is signed out in all tabs at once', async () => {
    const first = await stage.visit();
    const other = await stage.browser.openIn(first.context());
    await isLive(other);
    await first.getByRole('link', { name: 'Settings' }).click();
    await first.getByRole('button', { name: 'Sign out', exact: true }).click();
    for (const tab of [first, other]) await tab.getByRole('button', { name: 'Sign in' }).waitFor();
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
    expect((await stage.browser.leave()).filter((problem) => !problem.includes('401'))).toEqual([]);
  });
});
