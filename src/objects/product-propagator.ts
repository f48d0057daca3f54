// Tells the devices of one product what changed in it: one object per product, so that no product waits for another. D1 records
// the pending change and the cursor. The object keeps the devices that could not be told, and tries each of them again by
// itself. It must not change a product.
import { DurableObject } from 'cloudflare:workers';
import { readConfig } from '../config.ts';
import { openDatabase } from '../db/client.ts';
import { listDevicesAfter } from '../db/devices/devices.ts';
import { findProductWithChange, finishProductChange, moveCursor } from '../db/products/products.ts';
import { productFactsOf, type ProductFacts } from '../domain/device/ownership/ownership.ts';
import { accept, refuse, type Outcome } from '../domain/refusal.ts';
import { roomAtMs, spend, unspent, type Spent } from '../domain/token-bucket.ts';
import { log } from '../log.ts';
import { callDevice, hasAnswer } from './calls/stubs.ts';
import { within } from './calls/within.ts';

/** One invocation may call 1 000 objects; the next alarm, at once, continues. */
const pageSize = 100;
const pagesPerAlarm = 8;
const retriesPerAlarm = 50;
/** Devices that are called at the same moment: each call may have to wake an object. */
const stepSize = 10;
/** A device that has not answered by then is tried again later. */
const patienceMs = 5_000;
const firstBackOffMs = 10_000;
const maxBackOffMs = 3_600_000;
/** With more failures the devices are not the cause: delivery stops until some of them answer. */
const maxFailed = 1_000;

type Failed = { device_id: string; attempts: number };

export class ProductPropagator extends DurableObject<Env> {
  readonly #productId = Number(this.ctx.id.name);
  #changes: Spent = unspent;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec(
      `CREATE TABLE IF NOT EXISTS failed
         (device_id TEXT PRIMARY KEY, attempts INTEGER NOT NULL, next_at INTEGER NOT NULL) WITHOUT ROWID`,
    );
  }

  admitChange(): Outcome<null> {
    const { productChangesPerMinute: max } = readConfig(this.env).limits;
    const nowMs = Date.now();
    const spent = spend(this.#changes, max, nowMs);
    if (spent === undefined) {
      const retryAfterSeconds = Math.ceil((roomAtMs(this.#changes, max, nowMs) - nowMs) / 1000);
      return refuse({ kind: 'rate_limited', limit: 'productChangesPerMinute', retryAfterSeconds });
    }
    this.#changes = spent;
    return accept(null);
  }

  /** D1 has a pending change: delivers until every device has it. */
  async start(): Promise<void> {
    await this.ctx.storage.setAlarm(Date.now());
  }

  override async alarm(): Promise<void> {
    const row = await findProductWithChange(openDatabase(this.env.DB), this.#productId);
    if (row === undefined) return;
    const { product, pending } = row;
    const facts = productFactsOf(product);
    const failed = 'SELECT device_id, attempts FROM failed WHERE next_at <= ? ORDER BY next_at LIMIT ?';
    const due = this.ctx.storage.sql.exec<Failed>(failed, Date.now(), retriesPerAlarm).toArray();
    await this.#tellAll(due, facts);
    const isDone = pending === null || (await this.#deliver(facts, pending));
    await this.#planNext(isDone);
  }

  /** Continues at the cursor. True when all devices were told the change, and every change that came meanwhile. */
  async #deliver(facts: ProductFacts, pending: { changedAt: number; cursor: number }): Promise<boolean> {
    const database = openDatabase(this.env.DB);
    const { kv } = this.ctx.storage;
    let { cursor } = pending;
    // The change that this round began with: devices that were told before a later one have to be told again.
    if (cursor === 0) kv.put('roundOf', pending.changedAt);
    for (let pages = 0; pages < pagesPerAlarm && this.#countFailed() < maxFailed; pages++) {
      const page = await listDevicesAfter(database, cursor, pageSize, { productId: this.#productId });
      const devices = page.map(({ deviceId }) => ({ device_id: deviceId, attempts: 0 }));
      await this.#tellAll(devices, facts);
      cursor = page.at(-1)?.id ?? cursor;
      if (page.length === pageSize) {
        await moveCursor(database, this.#productId, cursor);
        continue;
      }
      if (await finishProductChange(database, this.#productId, kv.get<number>('roundOf') ?? 0)) return true;
      await moveCursor(database, this.#productId, 0);
      return false;
    }
    return false;
  }

  /** At a limited rate, so that others are served meanwhile. No step waits for the one before: a device that hangs delays none. */
  async #tellAll(devices: readonly Failed[], facts: ProductFacts): Promise<void> {
    const { productDevicesPerSecond: perSecond } = readConfig(this.env).limits;
    const stepMs = (stepSize * 1000) / perSecond;
    const told = await Promise.all(
      devices.map(async ({ device_id: deviceId }, index) => {
        await scheduler.wait((Math.floor(index / stepSize) + 1) * stepMs);
        const changed = callDevice(this.env, deviceId, 'idempotent').changeProduct(facts);
        // False if the device does not answer. A deleted device answers as well.
        return (await within(patienceMs, hasAnswer(changed))) ?? false;
      }),
    );
    const { sql } = this.ctx.storage;
    const failed = devices.filter((_, index) => told[index] === false);
    const answered = devices.filter(({ attempts }, index) => told[index] === true && attempts > 0);
    if (failed.length > 0) {
      log('warn', 'devices not told of a product change yet', { productId: this.#productId, devices: failed.length });
    }
    for (const { device_id, attempts } of failed) {
      const backOffMs = Math.min(firstBackOffMs * 2 ** attempts, maxBackOffMs) * (0.5 + Math.random());
      const insert = 'INSERT OR REPLACE INTO failed (device_id, attempts, next_at) VALUES (?, ?, ?)';
      sql.exec(insert, device_id, attempts + 1, Math.ceil(Date.now() + backOffMs));
    }
    for (const { device_id } of answered) sql.exec('DELETE FROM failed WHERE device_id = ?', device_id);
  }

  #countFailed(): number {
    return this.ctx.storage.sql.exec<{ count: number }>('SELECT count(*) AS count FROM failed').one().count;
  }

  /** An alarm that a new change has set meanwhile comes first. */
  async #planNext(isDone: boolean): Promise<void> {
    const { storage } = this.ctx;
    const failed = this.#countFailed();
    if ((isDone && failed === 0) || (await storage.getAlarm()) !== null) return;
    const isRetrying = isDone || failed >= maxFailed;
    const nextRetry = () => storage.sql.exec<{ at: number }>('SELECT min(next_at) AS at FROM failed').one().at;
    await storage.setAlarm(isRetrying ? nextRetry() : Date.now());
  }
}
