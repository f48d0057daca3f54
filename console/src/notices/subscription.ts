// Pushes to this browser. Nothing is registered or asked before the user presses the button.
import { ApiError, dataOf } from '@latchwork/client';
import { InputError } from '../errors.ts';
import { endPush, pushEntryKey, session } from '../state/session.ts';
import { pushTexts as words } from '../texts/telling.ts';

/** On pages that are not secure, browsers have no service workers. */
export const isPushPossible = 'serviceWorker' in navigator && 'PushManager' in globalThis;

export type PushState = { publicKey: string | null; isOn: boolean };

/** @throws ApiError, NoAnswerError */
export async function readPushState(): Promise<PushState> {
  const { publicKey, list } = await dataOf(session().api.users.me['push-subscriptions'].$get());
  const registration = await navigator.serviceWorker.getRegistration();
  const isSubscribed = registration !== undefined && (await registration.pushManager.getSubscription()) !== null;
  const entryId = localStorage.getItem(pushEntryKey);
  return { publicKey, isOn: isSubscribed && list.some(({ subscriptionId }) => subscriptionId === entryId) };
}

/** @throws InputError, ApiError, NoAnswerError */
export async function startPush(publicKey: string): Promise<void> {
  if ((await Notification.requestPermission()) !== 'granted') throw new InputError(words.denied);
  await navigator.serviceWorker.register('sw.js');
  const { pushManager } = await navigator.serviceWorker.ready;
  // It may be another user's, or made with a former key of the service.
  await (await pushManager.getSubscription())?.unsubscribe();
  const json = await subscribe(pushManager, publicKey);
  try {
    const { subscriptionId } = await dataOf(session().api.users.me['push-subscriptions'].$post({ json }));
    localStorage.setItem(pushEntryKey, subscriptionId);
  } catch (error) {
    await endPush();
    throw error;
  }
}

/** @throws ApiError, NoAnswerError */
export async function stopPush(): Promise<void> {
  const subscriptionId = localStorage.getItem(pushEntryKey);
  await endPush();
  if (subscriptionId === null) return;
  try {
    const param = { subscriptionId };
    await dataOf(session().api.users.me['push-subscriptions'][':subscriptionId'].$delete({ param }));
  } catch (error) {
    // It has ended before.
    if (!(error instanceof ApiError) || error.code !== 404) throw error;
  }
}

async function subscribe(pushManager: PushManager, applicationServerKey: string) {
  try {
    const { endpoint, keys } = (await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey })).toJSON();
    return { endpoint: endpoint ?? '', keys: { p256dh: keys?.['p256dh'] ?? '', auth: keys?.['auth'] ?? '' } };
  } catch (error) {
    // Its push service cannot be reached, or it has none.
    if (error instanceof DOMException) throw new InputError(words.failed(error.message));
    throw error;
  }
}
