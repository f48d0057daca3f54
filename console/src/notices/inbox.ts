// The user's notices, and how many are unread. The service is asked when the page opens, gets the focus or comes back into view, and once a
// minute while it can be seen.
import { ApiError, dataOf, NoAnswerError, type Client, type Data } from '@latchwork/client';
import { effect, signal } from '@preact/signals';
import type { PageQuery } from '../state/paged-list.ts';
import { isSignedIn, session } from '../state/session.ts';

export type Notice = Data<Client['users']['me']['notices']['$get']>['list'][number];

export const unread = signal(0);
/** How often the service was asked: a list that is shown is read again. */
export const looks = signal(0);

const lookEveryMs = 60_000;

/** @throws ApiError, NoAnswerError */
export async function readNotices(query: PageQuery) {
  const page = await dataOf(session().api.users.me.notices.$get({ query }));
  unread.value = page.unread;
  return page;
}

/** @param noticeIds undefined: all. @throws ApiError, NoAnswerError */
export async function markRead(noticeIds?: string[]): Promise<void> {
  const json = noticeIds === undefined ? {} : { noticeIds };
  unread.value = (await dataOf(session().api.users.me.notices.$patch({ json }))).unread;
}

let isLooking = false;

function look(): void {
  if (document.hidden || isLooking) return;
  isLooking = true;
  readNotices({ page: '1', size: '1' })
    .then(() => (looks.value += 1))
    .catch((error: unknown) => {
      // The header says that the service cannot be reached; it is asked again in a minute.
      if (!(error instanceof ApiError || error instanceof NoAnswerError)) throw error;
    })
    .finally(() => (isLooking = false));
}

effect(() => {
  unread.value = 0;
  if (!isSignedIn.value) return undefined;
  look();
  const timer = setInterval(look, lookEveryMs);
  addEventListener('focus', look);
  addEventListener('visibilitychange', look);
  return () => {
    clearInterval(timer);
    removeEventListener('focus', look);
    removeEventListener('visibilitychange', look);
  };
});
