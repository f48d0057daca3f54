// A connection that is lost and comes back, in a service of its own: it is killed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Browser, browserMissing } from '../../rig/browser/browser.ts';
import { openDevice, openTab, signIn } from '../../rig/browser/console-visit.ts';
import { WorkerRig } from '../../rig/worker/worker-rig.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'a lost connection', () => {
  let rig: WorkerRig;
  let browser: Browser;

  beforeAll(async () => {
    rig = await WorkerRig.start();
    browser = await Browser.start(rig.url);
  });
  afterAll(async () => {
    await browser.stop();
    await rig.stop();
  });

  it('shows itself, dates what is on the screen, and heals', async () => {
    const { topics } = await rig.activate('LOST-1');
    const report = (params: object) =>
      rig.sendBatch([{ topic: topics.propertyPost, payload: JSON.stringify({ params }) }]);
    await report({ position: 'up', wifi_rssi: -50 });
    const page = await browser.open();
    await signIn(page, rig.owner);
    await page.context().route('**/ownership', (route) => route.abort(), { times: 1 });
    await openDevice(page, /ST-1/);
    const settings = await browser.openIn(page.context(), `/${new URL(page.url()).hash}/settings`);
    const ownership = settings.getByRole('region', { name: 'Ownership' });
    await ownership.getByText('The service cannot be reached.').waitFor();
    await openTab(page, 'History');
    await page.locator('.chart').first().waitFor();
    await page.context().setOffline(true);
    await rig.restartWorker('kill');
    await page.getByText('Not live: the connection was lost. Trying again.').waitFor();
    await page.getByText(/^As of \d\d:\d\d:\d\d/).waitFor();
    const isGreen = () => page.evaluate<boolean>(`getComputedStyle(document.querySelector('main')).filter === 'none'`);
    expect(await isGreen()).toBe(false);
    await openTab(page, 'Control');
    await page.getByRole('button', { name: 'Down', exact: true }).click();
    const error = page.getByText('The service cannot be reached.');
    await page.locator('.journey').getByText('The service cannot be reached.').waitFor();
    await report({ position: 'middle' });
    await page.context().setOffline(false);
    await page.getByRole('status').filter({ hasText: /^Live/ }).waitFor();
    await page.getByRole('button', { name: 'Middle', exact: true, pressed: true }).waitFor();
    await page.getByText('As of').waitFor({ state: 'detached' });
    await openTab(page, 'History');
    await page.getByText(/^-50 saved at .*; newer ones are not kept$/).waitFor();
    await ownership.getByText(/^It /).waitFor();
    expect([await isGreen(), await error.count()]).toEqual([true, 0]);
    expect(browser.problems.splice(0).filter((problem) => !/ERR_|WebSocket/.test(problem))).toEqual([]);
  });
});
