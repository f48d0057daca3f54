// One user's inbox: notices, what the user set about them, and the browsers that they are pushed to. An inbox that hears nothing
// writes nothing. Devices and services decide what is a notice; here is decided who is disturbed by it. It must not read a device.
import { DurableObject } from 'cloudflare:workers';
import { readConfig } from '../../config.ts';
import { createId } from '../../crypto/secrets.ts';
import { isWithinHours } from '../../domain/device/times/calendar.ts';
import { fingerprint } from '../../domain/fingerprint.ts';
import { viewNotice, type KeptNotice, type NoticeChange } from '../../domain/notices.ts';
import { accept, refuse, type Outcome } from '../../domain/refusal.ts';
import { hourMs, minuteMs } from '../../domain/time.ts';
import type { NoticeSettings, PushSubscriptionBody } from '../../protocol/http/notices.ts';
import { pushMessage, type PushOutcome } from './push-message.ts';

const maxNotices = 100;
const maxSubscriptions = 10;
const pushesPerHour = 20;
/** A push that failed is tried once more. */
const pushAgainAfterMs = minuteMs;

export type Subscription = PushSubscriptionBody & { subscriptionId: string; createdAtMs: number };

/** One row. Oldest first. */
type Inbox = {
  notices: readonly KeptNotice[];
  settings: NoticeSettings;
  subscriptions: readonly Subscription[];
  pushes: readonly { noticeId: string; subscriptionId: string; isSecond: boolean }[];
  /** Of the last hour. */
  pushedAtMs: readonly number[];
};

const defaultSettings: NoticeSettings = { off: [], offlineAfterSeconds: null, handHours: null, quietHours: null };
const empty: Inbox = { notices: [], settings: defaultSettings, subscriptions: [], pushes: [], pushedAtMs: [] };

export class UserInbox extends DurableObject<Env> {
  read(): Inbox {
    return this.ctx.storage.kv.get<Inbox>('inbox') ?? empty;
  }

  /** A change that comes again changes nothing: its notice stays read, and is not pushed again. */
  async change(changes: readonly NoticeChange[]): Promise<void> {
    const nowMs = Date.now();
    const { notices: before, settings, subscriptions, pushes: waiting, pushedAtMs } = this.read();
    const { off, quietHours } = settings;
    let notices = before;
    for (const { key, notice } of changes) {
      const former = notices.find((kept) => kept.key === key);
      if (notice !== null && former?.atMs === notice.atMs) continue;
      if (former !== undefined) notices = notices.filter((kept) => kept !== former);
      if (notice === null || off.includes(notice.cause)) continue;
      notices = [...notices, { ...notice, key, noticeId: createId('', 16), isRead: false }].slice(-maxNotices);
    }
    if (notices === before) return;
    const recent = pushedAtMs.filter((atMs) => atMs > nowMs - hourMs);
    const isSilent = subscriptions.length === 0 || (quietHours !== null && isWithinHours(quietHours, nowMs));
    const added = isSilent ? [] : notices.filter((kept) => !before.includes(kept));
    const pushed = added.slice(0, pushesPerHour - recent.length);
    const pushes = pushed.flatMap(({ noticeId }) =>
      subscriptions.map(({ subscriptionId }) => ({ noticeId, subscriptionId, isSecond: false })),
    );
    this.#put({ notices, pushes: [...waiting, ...pushes], pushedAtMs: [...recent, ...pushed.map(() => nowMs)] });
    if (pushes.length > 0) await this.ctx.storage.setAlarm(nowMs);
  }

  /** @param noticeIds of which it may have forgotten some; undefined: all */
  markRead(noticeIds: readonly string[] | undefined): { unread: number } {
    const { notices } = this.read();
    const isMeant = (kept: KeptNotice) => !kept.isRead && noticeIds?.includes(kept.noticeId) !== false;
    const marked = notices.map((kept) => (isMeant(kept) ? { ...kept, isRead: true } : kept));
    if (notices.some(isMeant)) this.#put({ notices: marked });
    return { unread: marked.filter(({ isRead }) => !isRead).length };
  }

  writeSettings(settings: NoticeSettings): void {
    this.#put({ settings });
  }

  /** A browser that comes again keeps its entry, with the keys that it has now. */
  subscribe({ endpoint, keys }: PushSubscriptionBody): Outcome<Subscription> {
    const { subscriptions } = this.read();
    const former = subscriptions.find((other) => other.endpoint === endpoint);
    const others = subscriptions.filter((other) => other !== former);
    if (others.length >= maxSubscriptions) {
      return refuse({ kind: 'limit_reached', limit: { name: 'pushSubscriptionsPerUser', max: maxSubscriptions } });
    }
    const subscription = { subscriptionId: createId('', 16), createdAtMs: Date.now(), ...former, endpoint, keys };
    this.#put({ subscriptions: [...others, subscription] });
    return accept(subscription);
  }

  /** @param subscriptionId undefined: all. Whether there was such a subscription. */
  unsubscribe(subscriptionId?: string): boolean {
    const { subscriptions } = this.read();
    const isOther = (other: Subscription) => subscriptionId !== undefined && other.subscriptionId !== subscriptionId;
    const left = subscriptions.filter(isOther);
    const isEnded = left.length < subscriptions.length;
    if (isEnded) this.#put({ subscriptions: left });
    return isEnded;
  }

  delete(): Promise<void> {
    return this.ctx.storage.deleteAll();
  }

  override async alarm(): Promise<void> {
    const { pushes } = this.read();
    const outcomes = await Promise.all(pushes.map((push) => this.#push(push)));
    const failed = pushes.filter(({ isSecond }, index) => outcomes[index] === 'failed' && !isSecond);
    // Meanwhile others were added behind them.
    const others = this.read().pushes.slice(pushes.length);
    this.#put({ pushes: [...others, ...failed.map((push) => ({ ...push, isSecond: true }))] });
    if (failed.length > 0 && others.length === 0) await this.ctx.storage.setAlarm(Date.now() + pushAgainAfterMs);
  }

  async #push({ noticeId, subscriptionId }: Inbox['pushes'][number]): Promise<PushOutcome> {
    const { notices, subscriptions } = this.read();
    const { vapid } = readConfig(this.env);
    const subscription = subscriptions.find((other) => other.subscriptionId === subscriptionId);
    const notice = notices.find((kept) => kept.noticeId === noticeId);
    if (vapid === undefined || subscription === undefined || notice === undefined) return 'sent';
    const { isRead: _, ...payload } = viewNotice(notice);
    const topic = fingerprint(notice.key).toString(36);
    const outcome = await pushMessage(vapid, subscription, JSON.stringify(payload), topic);
    if (outcome === 'gone') this.unsubscribe(subscriptionId);
    return outcome;
  }

  #put(change: Partial<Inbox>): void {
    this.ctx.storage.kv.put<Inbox>('inbox', { ...this.read(), ...change });
  }
}
