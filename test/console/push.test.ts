// Notices that are pushed to a browser: the button, the service worker in a real Chromium, and what a click does. Two things are not
// real. Chromium gets no subscription without Google's push service: PushManager stands in for it, and the DevTools protocol delivers
// the messages. No protocol clicks on a notice: its event is made in the service worker, where windows may not be raised or opened.
import type { BrowserContext, CDPSession, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { VirtualDevice } from '../../dev/virtual-device.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { signIn } from '../../rig/browser/console-visit.ts';

const keys = { p256dh: `B${'A'.repeat(86)}`, auth: 'A'.repeat(22) };
const subscription = { endpoint: 'https://push.example.com/send/1', keys };
const withoutPushService = `{
  let subscription = null;
  const unsubscribe = async () => (subscription = null) === null;
  const toJSON = () => (${JSON.stringify(subscription)});
  PushManager.prototype.getSubscription = async () => subscription;
  PushManager.prototype.subscribe = async () => (subscription = { unsubscribe, toJSON });
}`;

describe.skipIf(browserMissing !== null)(browserMissing ?? 'a pushed notice', () => {
  let stage: Stage;
  let device: VirtualDevice;
  let deviceId: string;
  let page: Page;
  let context: BrowserContext;
  let protocol: CDPSession;

  beforeAll(async () => {
    stage = await Stage.open();
    device = stage.makeDevice('PORCH-1');
    ({ deviceId } = await device.start());
    const prepare = async (visitor: BrowserContext) => void (await visitor.addInitScript(withoutPushService));
    page = await stage.visit({ permissions: ['notifications'], prepare });
    context = page.context();
    protocol = await context.newCDPSession(page);
  });
  afterAll(async () => {
    await device.stop();
    await stage.close();
  });
  afterEach(() => {
    expect(stage.browser.problems.splice(0)).toEqual([]);
  });

  const go = (hash: string) => page.evaluate(`location.hash = '${hash}'`);
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  const subscribed = async () => (await dataOf(stage.owner.api.users.me['push-subscriptions'].$get())).list;
  const registered = () =>
    page.evaluate<number>('navigator.serviceWorker.getRegistrations().then(({ length }) => length)');
  const inWorker = <T>(script: string) => context.serviceWorkers()[0]!.evaluate<T>(script);
  /** Title, text and actions of the notifications that are shown. */
  const shown = () =>
    inWorker<string[][]>(`registration.getNotifications().then((list) =>
      list.map(({ title, body, actions }) => [title, body, ...actions.map(({ title }) => title)]))`);

  async function push(position: string, detail: object): Promise<void> {
    const updated = new Promise<string>((resolve) =>
      protocol.once('ServiceWorker.workerRegistrationUpdated', ({ registrations }) =>
        resolve(registrations[0]?.registrationId ?? ''),
      ),
    );
    await protocol.send('ServiceWorker.enable');
    const registrationId = await updated;
    const at = new Date().toISOString();
    const again = { action: 'toggle', position };
    const notice = { noticeId: at, cause: 'run_failed', deviceId, deviceName: 'Porch', at, detail, again };
    const data = JSON.stringify(notice);
    // Not by looking again and again: Chromium forgets a notification that is looked for while it is about to be shown.
    await inWorker(`globalThis.isShown = new Promise((resolve) => {
      const show = ServiceWorkerRegistration.prototype.showNotification.bind(registration);
      registration.showNotification = (...given) => show(...given).then(resolve);
    }), undefined`);
    await protocol.send('ServiceWorker.deliverPushMessage', { origin: stage.url, registrationId, data });
    await inWorker('isShown');
    await protocol.send('ServiceWorker.disable');
  }

  const click = (action: '' | 'try_again') =>
    inWorker<undefined>(`registration.getNotifications().then(([notification]) => {
      dispatchEvent(new NotificationEvent('notificationclick', { notification, action: '${action}' }));
    })`);
  const commands = async () =>
    (await dataOf(stage.owner.api.devices[':deviceId'].commands.$get({ param: { deviceId }, query: {} }))).list;
  const confirmed = (position: string) =>
    vi.waitFor(async () => expect((await commands())[0]).toMatchObject({ params: { position }, state: 'confirmed' }));

  it('needs the button: no service worker is registered before', async () => {
    await go('#/settings/notices');
    await page.getByRole('button', { name: 'Notify this device' }).waitFor();
    expect(await registered()).toBe(0);
    expect(await subscribed()).toEqual([]);
    await press('Notify this device');
    await page.getByRole('button', { name: 'Stop notifying this device' }).waitFor();
    expect(await registered()).toBe(1);
    expect(await subscribed()).toMatchObject([{ host: 'push.example.com' }]);
    const { headers } = await fetch(`${stage.url}/sw.js`);
    expect(headers.get('Cache-Control')).toContain('max-age=0');
    expect(headers.get('Content-Security-Policy')).toContain("default-src 'none'; script-src 'self'");
  });

  it('is shown, replaces the former one of its matter, and its click opens the device', async () => {
    await push('up', { scheduleId: 's1', name: 'Evening', outcome: 'missed' });
    await push('up', { scheduleId: 's1', name: 'Evening', outcome: 'refused' });
    expect(await shown()).toEqual([['Porch', expect.stringContaining('refused'), 'Try again']]);
    await click('');
    await page.getByRole('heading', { level: 1, name: /CH-1/ }).waitFor();
    expect(await shown()).toEqual([]);
    expect(await commands()).toEqual([]);
  });

  it('sends its command again as any other, which reaches the device', async () => {
    await go('#/');
    await push('up', {});
    await click('try_again');
    await confirmed('up');
    await page.getByRole('button', { name: 'Up', pressed: true }).waitFor();
  });

  it('opens the console if no page is open, and sends once its user has signed in', async () => {
    await push('down', {});
    await page.evaluate(`localStorage.removeItem('latchwork.tokens')`);
    await page.close();
    await inWorker(`globalThis.opened = new Promise((resolve) => {
      clients.openWindow = async (url) => {
        resolve(url);
        for (let page; ; await new Promise((wait) => setTimeout(wait, 5))) {
          [page] = await clients.matchAll({ type: 'window', includeUncontrolled: true });
          if (page !== undefined) return page;
        }
      };
    }), undefined`);
    await click('try_again');
    const address = await inWorker<string>('opened');
    expect(address).toBe(`./#/devices/${deviceId}`);
    page = await stage.browser.openIn(context, address.slice(1));
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    expect(await commands()).toHaveLength(1);
    await signIn(page, stage.owner);
    await confirmed('down');
  });

  it('ends with the button, and when its user signs out', async () => {
    await go('#/settings/notices');
    await press('Notify this device');
    await press('Stop notifying this device');
    await page.getByRole('button', { name: 'Notify this device' }).waitFor();
    expect([await registered(), (await subscribed()).length]).toEqual([0, 0]);
    await press('Notify this device');
    await page.getByRole('button', { name: 'Stop notifying this device' }).waitFor();
    await go('#/settings');
    await press('Sign out');
    await vi.waitFor(async () => expect(await registered()).toBe(0));
  });
});
