// Which relay shards want the messages of all devices of one user; one object per user. A device asks before it pushes and
// relies on the answer for a lease, over its sleep. A new shard counts as listening when the leases of the devices that asked
// have ended, so that it misses no message. It must not push, and must not know which devices the user may follow.
import { DurableObject } from 'cloudflare:workers';
import { log } from '../log.ts';
import type { FleetListener } from './calls/push-to-relays.ts';
import { callDevice, hasAnswer } from './calls/stubs.ts';
import { within } from './calls/within.ts';

/** Each lease that ends may have to wake a device's object. */
const leasesPerCall = 100;
const deviceAnswerMs = 3_000;

export class FleetDirectory extends DurableObject<Env> {
  readonly #sql = this.ctx.storage.sql;
  /** Leases that are being ended. */
  #ending: Promise<unknown> = Promise.resolve();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql.exec('CREATE TABLE IF NOT EXISTS listener (shard TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID');
    // Devices that asked since a shard came. Without an end in time: a device that asks again writes no row. `is_over`: the
    // device could not be told that its answer is old.
    this.#sql.exec('CREATE TABLE IF NOT EXISTS lease (device_id TEXT PRIMARY KEY, is_over INTEGER) WITHOUT ROWID');
  }

  /** Gives the device a lease. Only the device knows for how long. */
  ask(deviceId: string): FleetListener[] {
    this.#sql.exec(
      `INSERT INTO lease (device_id, is_over) VALUES (?, 0)
       ON CONFLICT (device_id) DO UPDATE SET is_over = 0 WHERE is_over = 1`,
      deviceId,
    );
    return this.#sql
      .exec<{ shard: string; id: number }>('SELECT shard, id FROM listener')
      .toArray()
      .map(({ shard, id: registrationId }) => ({ shard, registrationId }));
  }

  /** Registers a shard and ends a part of the leases. False if leases are left: the shard calls again then. */
  async listen(userId: number, shard: string): Promise<boolean> {
    const [former] = this.#sql.exec<{ id: number }>('SELECT id FROM listener WHERE shard = ?', shard).toArray();
    // It always grows, so that a late removal never meets the number of a newer registration.
    const registrationId = Math.max(Date.now(), (former?.id ?? 0) + 1);
    this.#sql.exec('INSERT OR REPLACE INTO listener (shard, id) VALUES (?, ?)', shard, registrationId);
    return this.#endLeases(userId, 0);
  }

  /**
   * The shard has sockets of the user. Tells devices again that missed the end of their leases. False if the registration was lost:
   * the shard has to listen anew.
   */
  async confirm(userId: number, shard: string): Promise<boolean> {
    await this.#endLeases(userId, 1);
    return this.#sql.exec('SELECT id FROM listener WHERE shard = ?', shard).toArray().length > 0;
  }

  /** The shard has no socket of the user. The entry stays if the shard registered again since. */
  leave(shard: string, registrationId: number): void {
    this.#sql.exec('DELETE FROM listener WHERE shard = ? AND id = ?', shard, registrationId);
  }

  /** Ends at most a hundred leases. @param isOver 1 for leases whose end a device missed. False if leases are left. */
  async #endLeases(userId: number, isOver: 0 | 1): Promise<boolean> {
    const leases = this.#sql
      .exec<{ device_id: string }>(
        `DELETE FROM lease WHERE device_id IN (SELECT device_id FROM lease WHERE is_over = ? LIMIT ?)
         RETURNING device_id`,
        isOver,
        leasesPerCall,
      )
      .toArray();
    // Another shard may have taken leases from the table that have not ended yet.
    this.#ending = Promise.all([this.#ending, ...leases.map((lease) => this.#endLease(lease.device_id, userId))]);
    await this.#ending;
    return leases.length < leasesPerCall;
  }

  /** A device that does not answer holds up no subscription: the next confirmation tries again. */
  async #endLease(deviceId: string, userId: number): Promise<void> {
    const ended = callDevice(this.env, deviceId, 'idempotent').endFleetLease(userId);
    const hasEnded = await within(deviceAnswerMs, hasAnswer(ended));
    if (hasEnded === true) return;
    if (hasEnded === undefined) log('warn', 'fleet lease not ended', { deviceId });
    this.#sql.exec('INSERT OR IGNORE INTO lease (device_id, is_over) VALUES (?, 1)', deviceId);
  }
}
