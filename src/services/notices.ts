// Notices of a user: read, settings, and the browsers that are pushed to, as HTTP shows them. The user's inbox keeps them; the user's
// directory tells devices what they have to know of the settings.
import type { ServiceContext } from '../context.ts';
import { pageOf } from '../domain/device/core/views.ts';
import { isZone } from '../domain/device/times/calendar.ts';
import { viewNotice } from '../domain/notices.ts';
import type { PageRequest } from '../domain/pagination.ts';
import { invalidInput, notFound, unwrap } from '../domain/refusal.ts';
import { toIso } from '../domain/time.ts';
import { findAddressProblem } from '../domain/webhooks/address.ts';
import { callFleetDirectory, callInbox } from '../objects/calls/stubs.ts';
import type { Subscription } from '../objects/inbox/user-inbox.ts';
import type { NoticeSettings, PushSubscriptionBody } from '../protocol/http/notices.ts';

export function noticesOf({ env, config }: ServiceContext, userId: number) {
  const inbox = callInbox(env, userId, 'idempotent');
  const directory = callFleetDirectory(env, userId, 'idempotent');

  return {
    /** Newest first. */
    async list(page: PageRequest) {
      const { notices } = await inbox.read();
      const unread = notices.filter(({ isRead }) => !isRead).length;
      return { ...pageOf(notices.toReversed().map(viewNotice), page), unread };
    },

    markRead: (noticeIds: readonly string[] | undefined) => inbox.markRead(noticeIds),
    readSettings: async () => (await inbox.read()).settings,

    async writeSettings(settings: NoticeSettings): Promise<NoticeSettings> {
      for (const name of ['handHours', 'quietHours'] as const) {
        if (!isZone(settings[name]?.zone ?? 'UTC'))
          throw invalidInput(`${name}.zone`, 'must be the name of a time zone');
      }
      await inbox.writeSettings(settings);
      const { offlineAfterSeconds, handHours } = settings;
      await directory.changeRules(userId, { offlineAfterSeconds, handHours });
      return settings;
    },

    readZone: async () => ({ zone: (await directory.readRules()).zone ?? 'UTC' }),

    async writeZone(zone: string) {
      if (!isZone(zone)) throw invalidInput('zone', 'must be the name of a time zone, such as Europe/Berlin');
      await directory.changeRules(userId, { zone });
      return { zone };
    },

    async listSubscriptions() {
      const { subscriptions } = await inbox.read();
      return { publicKey: config.vapid?.publicKey ?? null, list: subscriptions.map(viewSubscription) };
    },

    async subscribe(subscription: PushSubscriptionBody) {
      const problem = findAddressProblem(subscription.endpoint, config.webhooksMayBeLocal);
      if (problem !== undefined) throw invalidInput('endpoint', problem);
      return viewSubscription(unwrap(await inbox.subscribe(subscription)));
    },

    async unsubscribe(subscriptionId: string) {
      if (!(await inbox.unsubscribe(subscriptionId))) throw notFound('push_subscription', subscriptionId);
      return { subscriptionId };
    },
  };
}

function viewSubscription({ subscriptionId, endpoint, createdAtMs }: Subscription) {
  return { subscriptionId, host: new URL(endpoint).host, createdAt: toIso(createdAtMs) };
}
