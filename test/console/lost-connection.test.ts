// A connection that is lost and comes back, in a service of its own: it is killed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Browser, browserMissing } from '../../rig/browser/browser.ts';
import { signIn } from '../../rig/browser/console-visit.ts';
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

  it('shows itself, and heals', async () => {
    const page = await browser.open();
    await signIn(page, rig.owner);
    await page.context().setOffline(true);
    await rig.restartWorker('kill');
    await page.getByRole('status').filter({ hasText: 'Not live' }).waitFor();
    await page.context().setOffline(false);
    await page.getByRole('status').filter({ hasText: /^Live/ }).waitFor({ timeout: 60_000 });
    expect(browser.problems.splice(0).filter((problem) => !/ERR_|WebSocket/.test(problem))).toEqual([]);
  });
});
