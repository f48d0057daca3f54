// Claim codes, undone claims, the password asked again and what an account is told, in a real browser against the whole service.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { activate, type Session } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'claims in the console', () => {
  let stage: Stage;
  let buyer: Session;
  let makers: Page;
  let buyers: Page;

  beforeAll(async () => {
    stage = await Stage.open();
    buyer = await stage.signUp();
    makers = await stage.visit();
    buyers = await stage.visit({}, buyer);
  });
  afterAll(() => stage.close());
  afterEach(() => {
    const problems = stage.browser.problems.splice(0);
    expect(problems.filter((problem) => !problem.includes('a status of 4'))).toEqual([]);
  });

  const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
  const go = (page: Page, hash: string) => page.evaluate(`location.hash = '${hash}'`);
  const code = { deviceSN: 'BOX-1', claimCode: 'K7RX-2MQ9' };
  const addressOfCode = () => `#/add/${stage.productKey}/${code.deviceSN}/${code.claimCode}`;

  it('are printed as codes after an import that has them', async () => {
    await go(makers, `#/products/${stage.productKey}`);
    await press(makers, 'Import serial numbers');
    await makers
      .getByLabel('One a line, or JSON')
      .fill(`deviceSN,claimCode\n${code.deviceSN},${code.claimCode}\nBOX-2,`);
    await press(makers, 'Read');
    await press(makers, 'Import 2 serial numbers');
    await press(makers, 'Print 1 code');
    await makers.getByRole('img', { name: 'Code of BOX-1' }).waitFor();
    expect(await makers.getByText(code.claimCode).count()).toBe(1);
    expect(await findBarriers(makers)).toEqual([]);
    await press(makers, 'Leave');
    await makers.getByText('has a claim code').waitFor();
  });

  it('begin with the code of a box, and take that device alone', async () => {
    await go(buyers, addressOfCode());
    await buyers.getByText('The code of device BOX-1 is read.').waitFor();
    await press(buyers, 'Make an address');
    const address = await buyers
      .getByText(/\/t\/\w{20}$/)
      .first()
      .textContent();
    const token = /\/t\/(\w+)/.exec(address ?? '')?.[1] ?? '';
    const claim = async (deviceSN: string) => {
      const body = JSON.stringify({ productKey: stage.productKey, deviceSN });
      return (await fetch(`${stage.url}/t/${token}/api/v1/devices/activate`, { method: 'POST', body })).status;
    };
    expect(await claim('BOX-2')).toBe(400);
    expect(await claim(code.deviceSN)).toBe(200);
    await buyers.getByText('The device is activated, and it is yours.').waitFor();
    expect(await findBarriers(buyers)).toEqual([]);
  });

  it('are undone by the maker', async () => {
    await makers.reload();
    await press(makers, 'Undo the claim of BOX-1');
    await press(makers, 'Undo the claim');
    await makers.getByText('claimed: it belongs to a user').waitFor({ state: 'detached' });
    const { list } = await dataOf(buyer.api.devices.$get({ query: {} }));
    expect(list).toEqual([]);
  });

  it('ask for the password before a key is made by a session that is not fresh', async () => {
    // The page's own answer: a session of five minutes ago would need five minutes.
    let refusals = 1;
    await buyers.route('**/api/v1/users/api-keys', (route) => {
      if (route.request().method() !== 'POST' || refusals === 0) return route.continue();
      refusals -= 1;
      return route.fulfill({ status: 403, json: { code: 403, message: 'confirmation_required', data: null } });
    });
    await go(buyers, '#/settings');
    await press(buyers, 'Create an API key');
    const question = buyers.getByRole('dialog', { name: 'Is it you?' });
    await question.getByLabel('Your password').fill('not the password');
    await question.getByRole('button', { name: 'Go on' }).click();
    await question.getByText('The present password is wrong.').waitFor();
    await question.getByLabel('Your password').fill(buyer.password);
    await question.getByRole('button', { name: 'Go on' }).click();
    await buyers.getByRole('dialog', { name: 'The new key' }).waitFor();
    expect(await findBarriers(buyers)).toEqual([]);
  });

  it('and everything else that opens an account are told to its user', async () => {
    await buyers.reload();
    const events = buyers.getByRole('region', { name: 'Security events' });
    for (const kind of ['API key made', 'Wrong password', 'Claim undone', 'Device claimed', 'Signed in']) {
      await events.getByText(kind).first().waitFor();
    }
  });

  it('show a device that has to be activated again to its new owner', async () => {
    const { deviceId } = await activate(stage.owner.api, stage.productKey, 'SOLD-1');
    const param = { deviceId };
    await dataOf(stage.owner.api.devices[':deviceId'].credentials.$post({ param }));
    await dataOf(stage.owner.api.devices[':deviceId'].transfer.$post({ param, json: { email: buyer.email } }));
    await go(buyers, '#/');
    await buyers.reload();
    await press(buyers, 'Take it over');
    await buyers
      .getByText(/has to be activated again/)
      .first()
      .waitFor();
    await go(buyers, `#/devices/${deviceId}/settings`);
    await buyers
      .getByRole('region', { name: 'Ownership' })
      .getByText('its former owner has seen its password')
      .waitFor();
    await press(buyers, 'Open the pairing window');
    await buyers.getByText('In another network, give the device this address:').waitFor();
    expect(await findBarriers(buyers)).toEqual([]);
  });
});
