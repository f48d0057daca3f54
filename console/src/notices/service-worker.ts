// The service worker, registered by the button "Notify this device": shows notices that are pushed, and hands a click to a page of
// the console. It fetches nothing, keeps nothing, and sends no command: the page does, as its user.
import type { NoticeClick } from '../state/notice-clicks.ts';
import { texts } from '../texts.ts';
import { noticesTexts } from '../texts/telling.ts';
import type { Notice } from './inbox.ts';
import { sentenceOf } from './sentence.ts';

/** What is used of the types of service workers, which do not go together with those of pages. */
type Page = { focused: boolean; focus: () => Promise<unknown>; postMessage: (click: NoticeClick) => void };
type Waiting = Event & { waitUntil: (work: Promise<unknown>) => void };
type Worker = {
  registration: ServiceWorkerRegistration;
  clients: {
    matchAll: (options: { type: 'window'; includeUncontrolled: true }) => Promise<Page[]>;
    openWindow: (url: string) => Promise<Page | null>;
  };
  addEventListener: {
    (type: 'push', listener: (event: Waiting & { data: { json: () => Notice } }) => void): void;
    (
      type: 'notificationclick',
      listener: (event: Waiting & { action: string; notification: Notification }) => void,
    ): void;
  };
};
const worker = globalThis as unknown as Worker;

worker.addEventListener('push', (event) => event.waitUntil(show(event.data.json())));
worker.addEventListener('notificationclick', (event) => event.waitUntil(open(event.notification, event.action)));

function show(notice: Notice): Promise<void> {
  const { cause, deviceId, deviceName, at, detail, again } = notice;
  const options = {
    body: sentenceOf(notice),
    lang: 'en',
    icon: 'icon.svg',
    // A notice replaces the former one about the same matter.
    tag: [cause, deviceId, detail['scheduleId'], detail['event'], detail['webhookId']].join(' '),
    renotify: true,
    timestamp: Date.parse(at),
    data: { deviceId, again },
    actions: again === null ? [] : [{ action: 'try_again', title: texts.retry }],
  };
  return worker.registration.showNotification(deviceName ?? deviceId ?? noticesTexts.account, options);
}

async function open(notification: Notification, action: string): Promise<void> {
  notification.close();
  const { deviceId, again } = notification.data as Pick<Notice, 'deviceId' | 'again'>;
  const isAgain = action === 'try_again' && deviceId !== null && again !== null;
  const click: NoticeClick = isAgain ? { type: 'try_again', deviceId, again } : { type: 'open', deviceId };
  const pages = await worker.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const page = pages.find(({ focused }) => focused) ?? pages[0];
  if (page !== undefined) {
    page.postMessage(click);
    await page.focus();
    return;
  }
  // A command is never in an address: a link could send it.
  const opened = await worker.clients.openWindow(deviceId === null ? './#/notices' : `./#/devices/${deviceId}`);
  opened?.postMessage(click);
}
