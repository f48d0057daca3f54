// What is told without being asked: a maker's webhook against a receiver on a real socket, and a person's notices.
import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { runCommand } from '../../client/src/command.ts';
import { putSchedule, runSchedule } from '../../client/src/schedules.ts';
import type { VirtualDevice } from '../../dev/virtual-device.ts';
import { activate } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers } from '../../rig/browser/console-visit.ts';
import { eventually } from '../../rig/changes.ts';
import { WebhookReceiver } from '../../rig/services/webhook-receiver.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the console', () => {
  let stage: Stage;
  let receiver: WebhookReceiver;
  let device: VirtualDevice;
  let deviceId: string;

  beforeAll(async () => {
    [stage, receiver] = await Promise.all([Stage.open(), WebhookReceiver.start()]);
    device = stage.makeDevice('HOOK-1');
    ({ deviceId } = await device.start());
  });
  afterAll(() => Promise.all([device.stop(), receiver.stop(), stage.close()]));
  afterEach(() => {
    expect(stage.browser.problems.splice(0)).toEqual([]);
  });

  const move = (position: 'middle' | 'down') =>
    runCommand(stage.owner.api, deviceId, { action: 'toggle', position }, { until: 'confirmed' });
  const received = async (type: string, count: number) => {
    const ofType = () => receiver.received.filter(({ body }) => body.startsWith(`{"type":"${type}"`));
    await eventually(`${count} times ${type}`, () => ofType().length >= count);
    return ofType();
  };

  it('makes a webhook, tests, follows, repeats, enables and deletes it', async () => {
    const page = await stage.visit();
    const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
    const takeSecret = async () => {
      const secret = await page.locator('dialog .once code').innerText();
      await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
      return secret;
    };
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByRole('tab', { name: 'Webhooks' }).click();
    await page.getByRole('link', { name: 'Make a webhook' }).click();
    // A port where nobody listens.
    await page.getByLabel('Address').fill('http://127.0.0.1:9/hook');
    for (const type of ['device.offline', 'device.online']) await page.getByLabel(type).uncheck();
    await press('Make a webhook');
    await page.getByText('Choose at least one thing that it is told.').waitFor();
    await page.getByLabel('device.reported').check();
    await press('Make a webhook');
    await page.getByText(/has to answer endpoint\.challenge .* came: unreachable/).waitFor();
    expect(stage.browser.problems.splice(0)).toEqual([expect.stringContaining('400')]);
    await page.getByLabel('Address').fill(`${receiver.url}/hook`);
    await press('Make a webhook');
    const firstSecret = await takeSecret();
    await page.getByRole('heading', { level: 1, name: `${receiver.url}/hook` }).waitFor();

    await press('Send a test message');
    const test = page.getByRole('region', { name: 'Try it' });
    await test.getByText(/^Answered 200 after [\d,]+ ms$/).waitFor();
    await test.getByText('The exact text that was signed').click();
    const { headers, body } = (await received('endpoint.test', 1))[0]!;
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
    expect(await test.locator('pre').innerText()).toBe(signed);

    await move('middle');
    const [event] = await received('device.reported', 1);
    expect(new Webhook(firstSecret).verify(event!.body, event!.headers)).toMatchObject({ data: { deviceId } });
    const delivered = page.getByRole('region', { name: 'Deliveries' }).getByRole('listitem').first();
    await eventually('a delivery in the list', async () => {
      await press('Look again');
      return delivered.isVisible();
    });
    await delivered.getByText(/^Answered 200 /).waitFor();
    await delivered.getByRole('link', { name: deviceId }).waitFor();
    expect(await findBarriers(page)).toEqual([]);

    await press('Replace the secret');
    await press('Replace it');
    const secondSecret = await takeSecret();
    await delivered.getByRole('button').click();
    await page.locator('button:focus', { hasText: 'Deliver again' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByText('They are under way.').waitFor();
    const [, again] = await received('device.reported', 2);
    expect(again!.headers['webhook-id']).toBe(event!.headers['webhook-id']);
    for (const secret of [firstSecret, secondSecret]) new Webhook(secret).verify(again!.body, again!.headers);

    receiver.answer = (response) => response.writeHead(410).end();
    await move('down');
    const disabled = page.getByText(`The webhook to ${receiver.url}/hook was disabled. The server answered 410`);
    await page.getByRole('link', { name: 'Notices' }).click();
    await eventually('a notice', async () => {
      await page.evaluate(`dispatchEvent(new Event('focus'))`);
      return disabled.isVisible();
    });
    await page.getByRole('link', { name: 'A webhook' }).click();
    receiver.answer = (response) => response.end();
    await press('Enable again');
    await page.getByText('On', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Notices' }).click();
    await page.getByText(/^Webhook made/).waitFor();
    await disabled.waitFor({ state: 'detached' });
    await press('Mark all read');
    await page.getByRole('link', { name: 'Notices', exact: true }).waitFor();
    await page.goBack();

    await press('Delete');
    await press('Delete the webhook');
    await page.getByText('No webhook yet.').waitFor();
    await page.context().close();
  });

  it('counts notices while the page is seen', async () => {
    const { api } = stage.owner;
    const page = await stage.visit();
    await page.clock.install();
    await page.reload();
    await page.getByRole('link', { name: 'Notices', exact: true }).waitFor();
    const { deviceId } = await activate(api, stage.productKey, 'BELL-1');
    const command = { action: 'toggle', position: 'down' } as const;
    const evening = { name: 'Evening', at: '2027-12-24T20:00:00Z', command, graceSeconds: 5 };
    const { scheduleId } = await putSchedule(api, deviceId, evening);
    expect((await runSchedule(api, deviceId, scheduleId)).outcome).toBe('missed');
    const { notices } = api.users.me;
    await eventually('a notice', async () => (await dataOf(notices.$get({ query: {} }))).unread === 1);
    let asked = 0;
    page.on('request', (request) => (asked += request.url().includes('/users/me/notices') ? 1 : 0));
    await page.evaluate(`Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })`);
    await page.evaluate(`dispatchEvent(new Event('focus'))`);
    await page.clock.fastForward('02:00');
    expect(asked).toBe(0);
    await page.evaluate(`delete document.hidden`);
    await page.clock.fastForward('01:00');
    await page.getByRole('link', { name: 'Notices, 1 unread' }).waitFor();
    await page.context().close();
  });

  it('explains a notice, tries again, and marks it read', async () => {
    const page = await stage.visit();
    await page.getByRole('link', { name: 'Notices, 1 unread' }).click();
    const notice = page.getByRole('listitem').filter({ hasText: 'A run of “Evening” did not happen' });
    await notice.getByText('new', { exact: true }).waitFor();
    await notice.getByText('the device was away').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    const device = stage.makeDevice('BELL-1');
    await device.start();
    await notice.getByRole('button', { name: 'Try again: Down' }).click();
    await notice.locator('.journey').getByText('Confirmed by a report').waitFor();
    await page.getByRole('button', { name: 'Mark all read' }).click();
    await page.getByRole('link', { name: 'Notices', exact: true }).waitFor();
    await notice.getByText('new', { exact: true }).waitFor({ state: 'detached' });
    await notice.getByRole('link').click();
    await page.getByRole('button', { name: 'Down', exact: true, pressed: true }).waitFor();
    await device.stop();
    await page.context().close();
  });

  it('tells what the settings say', async () => {
    const page = await stage.visit({ timezoneId: 'Asia/Tokyo' });
    await page.getByRole('link', { name: 'Notices' }).click();
    await page.getByRole('link', { name: 'What you are told' }).click();
    await page.getByLabel('A webhook is disabled').uncheck();
    await page.getByLabel('Too long is').selectOption('minutes');
    await page.getByLabel('Minutes').fill('45');
    await page.getByLabel('A device is moved by hand').check();
    await page.getByLabel('From').fill('21:30');
    await page.getByLabel('Quiet hours').check();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    const settings = await dataOf(stage.owner.api.users.me['notice-settings'].$get());
    const hours = (from: string) => ({ from, to: '06:00', zone: 'Asia/Tokyo' });
    const told = { off: ['webhook_disabled'], offlineAfterSeconds: 2_700 };
    expect(settings).toEqual({ ...told, handHours: hours('21:30'), quietHours: hours('22:00') });
    await page.reload();
    await page.getByLabel('Minutes').waitFor();
    expect(await page.getByLabel('From').first().inputValue()).toBe('21:30');
    await page.context().close();
  });
});
