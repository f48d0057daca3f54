// Which relay shards want the messages of all devices of one user, which webhooks the user has, and the user's rules of notices. A
// device asks before it pushes and relies on the answer for a lease, over its sleep. A new shard counts as listening when the leases
// of the devices that asked have ended, so that it misses no message. It must not push, nor know which devices the user may follow.
import { DurableObject } from 'cloudflare:workers';
import { log } from '../log.ts';
import { filterOf, type Webhook } from '../domain/webhooks/webhooks.ts';
import type { WebhookEnd } from '../protocol/vocabulary.ts';
import { defaultNoticeRules, type NoticeRules } from '../domain/notices.ts';
import { minuteMs } from '../domain/time.ts';
import type { FleetAnswer } from './calls/push-to-relays.ts';
import { callDevice, hasAnswer } from './calls/stubs.ts';
import { within } from './calls/within.ts';

/** Each lease that ends may have to wake a device's object. */
const leasesPerCall = 100;
const deviceAnswerMs = 3_000;
/** Devices that missed that the webhooks changed. */
const tellAgainAfterMs = minuteMs;

export class FleetDirectory extends DurableObject<Env> {
  readonly #sql = this.ctx.storage.sql;
  /** Leases that are being ended. */
  #ending: Promise<unknown> = Promise.resolve();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql.exec('CREATE TABLE IF NOT EXISTS listener (shard TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID');
    this.#sql.exec('CREATE TABLE IF NOT EXISTS webhook (id TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID');
    // Devices that asked since a shard came. Without an end in time: a device that asks again writes no row. `is_over`: the
    // device has to be told that its answer is old.
    this.#sql.exec('CREATE TABLE IF NOT EXISTS lease (device_id TEXT PRIMARY KEY, is_over INTEGER) WITHOUT ROWID');
  }

  /** Gives the device a lease. Only the device knows for how long. */
  ask(deviceId: string): FleetAnswer {
    this.#sql.exec(
      `INSERT INTO lease (device_id, is_over) VALUES (?, 0)
       ON CONFLICT (device_id) DO UPDATE SET is_over = 0 WHERE is_over = 1`,
      deviceId,
    );
    const listeners = this.#sql.exec<{ shard: string; id: number }>('SELECT shard, id FROM listener').toArray();
    const webhooks = this.ctx.storage.kv.get('isOff') === true ? [] : this.listWebhooks();
    const rules = this.ctx.storage.kv.get<NoticeRules>('rules');
    return {
      listeners: listeners.map(({ shard, id: registrationId }) => ({ shard, registrationId })),
      webhooks: webhooks.map(filterOf),
      ...(rules && { rules }),
    };
  }

  /** Newest first. */
  listWebhooks(): Webhook[] {
    const rows = this.#sql.exec<{ json: string }>('SELECT json FROM webhook').toArray();
    const webhooks = rows.map(({ json }) => JSON.parse(json) as Webhook);
    return webhooks.sort((one, other) => other.createdAtMs - one.createdAtMs);
  }

  /** Devices beyond the first hundred leases learn of it by the alarm. False if the user has `max` others. */
  async putWebhook(userId: number, webhook: Webhook, max: number): Promise<boolean> {
    const { webhookId } = webhook;
    if (this.listWebhooks().filter((other) => other.webhookId !== webhookId).length >= max) return false;
    this.#sql.exec('INSERT OR REPLACE INTO webhook (id, json) VALUES (?, ?)', webhookId, JSON.stringify(webhook));
    await this.#endLeasesForWebhooks(userId);
    return true;
  }

  /** Until it is put again. */
  disableWebhook(userId: number, webhookId: string, because: WebhookEnd): Promise<void> {
    this.#sql.exec("UPDATE webhook SET json = json_set(json, '$.disabledBecause', ?) WHERE id = ?", because, webhookId);
    return this.#endLeasesForWebhooks(userId);
  }

  removeWebhook(userId: number, webhookId: string): Promise<void> {
    this.#sql.exec('DELETE FROM webhook WHERE id = ?', webhookId);
    return this.#endLeasesForWebhooks(userId);
  }

  /** Of the account: while it is disabled, devices hear of no webhook. */
  setAccount(userId: number, to: 'on' | 'off' | 'deleted'): Promise<void> {
    const { kv } = this.ctx.storage;
    if (to === 'on') kv.delete('isOff');
    else kv.put('isOff', true);
    if (to === 'deleted') {
      this.#sql.exec('DELETE FROM webhook');
      kv.delete('rules');
    }
    return this.#endLeasesForWebhooks(userId);
  }

  readRules(): NoticeRules {
    return this.ctx.storage.kv.get<NoticeRules>('rules') ?? defaultNoticeRules;
  }

  async changeRules(userId: number, change: Partial<NoticeRules>): Promise<void> {
    const former = this.readRules();
    const rules = { ...former, ...change };
    if (JSON.stringify(former) === JSON.stringify(rules)) return;
    this.ctx.storage.kv.put('rules', rules);
    return this.#endLeasesForWebhooks(userId);
  }

  override async alarm(): Promise<void> {
    await this.#endLeasesForWebhooks(Number(this.ctx.id.name?.replace('user-', '')));
  }

  /** The alarm stands before the calls: the object may end in their midst. */
  async #endLeasesForWebhooks(userId: number): Promise<void> {
    await this.ctx.storage.setAlarm(Date.now() + tellAgainAfterMs);
    const hasEndedMissed = await this.#endLeases(userId, 1, true);
    const hasEndedAll = await this.#endLeases(userId, 0, true);
    const isMissed = this.#sql.exec('SELECT 1 FROM lease WHERE is_over = 1 LIMIT 1').toArray().length > 0;
    if (!hasEndedMissed || !hasEndedAll) await this.ctx.storage.setAlarm(Date.now());
    else if (!isMissed) await this.ctx.storage.deleteAlarm();
  }

  /** Registers a shard and ends a part of the leases. False if leases are left: the shard calls again then. */
  async listen(userId: number, shard: string): Promise<boolean> {
    const [former] = this.#sql.exec<{ id: number }>('SELECT id FROM listener WHERE shard = ?', shard).toArray();
    // It always grows, so that a late removal never meets the number of a newer registration.
    const registrationId = Math.max(Date.now(), (former?.id ?? 0) + 1);
    this.#sql.exec('INSERT OR REPLACE INTO listener (shard, id) VALUES (?, ?)', shard, registrationId);
    return this.#endLeases(userId, 0, false);
  }

  /**
   * The shard has sockets of the user. Tells devices again that missed the end of their leases. False if the registration was lost:
   * the shard has to listen anew.
   */
  async confirm(userId: number, shard: string): Promise<boolean> {
    // They may have missed either.
    await this.#endLeases(userId, 1, true);
    return this.#sql.exec('SELECT id FROM listener WHERE shard = ?', shard).toArray().length > 0;
  }

  /** The shard has no socket of the user. The entry stays if the shard registered again since. */
  leave(shard: string, registrationId: number): void {
    this.#sql.exec('DELETE FROM listener WHERE shard = ? AND id = ?', shard, registrationId);
  }

  /** Ends at most a hundred leases. @param isOver 1 for leases whose end a device missed. False if leases are left. */
  async #endLeases(userId: number, isOver: 0 | 1, areWebhooksOld: boolean): Promise<boolean> {
    const leases = this.#sql
      .exec<{ device_id: string }>(
        `UPDATE lease SET is_over = 1 WHERE device_id IN (SELECT device_id FROM lease WHERE is_over = ? LIMIT ?)
         RETURNING device_id`,
        isOver,
        leasesPerCall,
      )
      .toArray();
    // Another shard may have taken leases from the table that have not ended yet.
    this.#ending = Promise.all([
      this.#ending,
      ...leases.map((lease) => this.#endLease(lease.device_id, userId, areWebhooksOld)),
    ]);
    await this.#ending;
    return leases.length < leasesPerCall;
  }

  /** A device that does not answer holds up no subscription: the next confirmation tries again. */
  async #endLease(deviceId: string, userId: number, areWebhooksOld: boolean): Promise<void> {
    const ended = callDevice(this.env, deviceId, 'idempotent').endFleetLease(userId, areWebhooksOld);
    const hasEnded = await within(deviceAnswerMs, hasAnswer(ended));
    if (hasEnded === undefined) log('warn', 'fleet lease not ended', { deviceId });
    // Not if the device has asked meanwhile.
    if (hasEnded === true) this.#sql.exec('DELETE FROM lease WHERE device_id = ? AND is_over = 1', deviceId);
  }
}
