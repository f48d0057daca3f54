// Which relay shards want the messages of all devices of one user (or, with several directories a user, of a part of them). A
// device asks once and is told of what comes later, so that a message costs no call here. Few that cannot be told hold up no
// subscription: each is told later, by an alarm. Beyond `fleetToldDevices` devices get a lease instead, which a new
// registration waits for. Pushes nothing.
import { DurableObject } from 'cloudflare:workers';
import { readConfig } from '../config.ts';
import type { FleetAnswer } from '../domain/device/fleets.ts';
import { refuse, RefusedError, type Outcome, type Refusal } from '../domain/refusal.ts';
import { log } from '../log.ts';
import { callDevice } from './calls/stubs.ts';
import { within } from './calls/within.ts';

const hourMs = 3_600_000;
const tellAtOnce = 100;
const maxTries = 2;
const firstBackOffMs = 2_000;
const maxBackOffMs = 600_000;

type Told = { device_id: string; until_ms: number };
type Registration = { userId: number; shard: string; registrationId: number };

export class FleetDirectory extends DurableObject<Env> {
  readonly #limits = readConfig(this.env).limits;
  readonly #sql = this.ctx.storage.sql;
  /** Until when each device relies on being told, and a little longer. */
  readonly #told: Map<string, number>;
  #leasedUntilMs: number;
  /** Storage says that there may be leases until then. */
  #leasesUntilMs: number;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql.exec('CREATE TABLE IF NOT EXISTS listener (shard TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID');
    this.#sql.exec(
      'CREATE TABLE IF NOT EXISTS told (device_id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID',
    );
    // Devices among those that could not be told yet.
    this.#sql.exec(
      `CREATE TABLE IF NOT EXISTS untold
         (device_id TEXT PRIMARY KEY, user_id INTEGER NOT NULL, tries INTEGER NOT NULL, next_at_ms INTEGER NOT NULL)
       WITHOUT ROWID`,
    );
    this.#sql.exec('CREATE TABLE IF NOT EXISTS leases (until_ms INTEGER NOT NULL)');
    const told = this.#sql.exec<Told>('SELECT device_id, until_ms FROM told').toArray();
    this.#told = new Map(told.map(({ device_id, until_ms }) => [device_id, until_ms]));
    const [leases] = this.#sql.exec<{ until_ms: number }>('SELECT until_ms FROM leases').toArray();
    this.#leasesUntilMs = leases?.until_ms ?? 0;
    // Those of a former life.
    this.#leasedUntilMs = this.#leasesUntilMs > Date.now() ? Date.now() + this.#limits.fleetLeaseMs : 0;
  }

  /** Of a device that the user may follow. */
  ask(deviceId: string): FleetAnswer {
    const nowMs = Date.now();
    const listeners = this.#listeners();
    const told = this.#told.get(deviceId);
    if (told === undefined && this.#isFull(nowMs)) return { listeners, isTold: false, forMs: this.#lease(nowMs) };
    const toldMs = this.#limits.fleetToldHours * hourMs;
    // For longer than the device relies on it, and a new one each time: see `#tell`.
    const untilMs = Math.max(nowMs + toldMs + hourMs, (told ?? 0) + 1);
    this.#sql.exec('INSERT OR REPLACE INTO told (device_id, until_ms) VALUES (?, ?)', deviceId, untilMs);
    this.#told.set(deviceId, untilMs);
    this.#sql.exec('DELETE FROM untold WHERE device_id = ?', deviceId);
    // Spread, so that devices that came together do not ask together.
    return { listeners, isTold: true, forMs: Math.floor(toldMs * (1 - Math.random() / 4)) };
  }

  /**
   * Resolves when every device that asked knows of it, but for `fleetUntoldDevices` at most that are told later; with the
   * reason where there are more.
   * @param isRepeated the shard has had such a subscription: nobody is told where its registration is here
   */
  async listen(userId: number, shard: string, isRepeated: boolean): Promise<Outcome<null>> {
    const [former] = this.#sql.exec<{ id: number }>('SELECT id FROM listener WHERE shard = ?', shard).toArray();
    if (isRepeated && former !== undefined) return { ok: true, value: null };
    // Always a higher one: a late removal never meets a newer registration's number.
    const registrationId = Math.max(Date.now(), (former?.id ?? 0) + 1);
    this.#sql.exec('INSERT OR REPLACE INTO listener (shard, id) VALUES (?, ?)', shard, registrationId);
    // Never longer than a lease can be, whatever the clock has done meanwhile.
    const leasedMs = Math.min(this.#leasedUntilMs - Date.now(), this.#limits.fleetLeaseMs);
    const [refusal] = await Promise.all([
      this.#tellAll({ userId, shard, registrationId }),
      leasedMs > 0 ? scheduler.wait(leasedMs) : undefined,
    ]);
    return refusal === undefined ? { ok: true, value: null } : refuse(refusal);
  }

  /** The shard has no such socket of the user; it stays where it registered again since. */
  leave(shard: string, registrationId: number): void {
    this.#sql.exec('DELETE FROM listener WHERE shard = ? AND id = ?', shard, registrationId);
  }

  /** Tells each device that could not be told of all registrations that there are now. */
  override async alarm(): Promise<void> {
    const nowMs = Date.now();
    this.#dropOutdated(nowMs);
    const due = this.#sql
      .exec<Told & { user_id: number; tries: number }>(
        'SELECT * FROM untold JOIN told USING (device_id) WHERE next_at_ms <= ? ORDER BY next_at_ms LIMIT ?',
        nowMs,
        tellAtOnce,
      )
      .toArray();
    const listeners = this.#listeners();
    const failed = await Promise.all(
      due.map(async (device) => {
        for (const listener of listeners) {
          const refusal = await this.#tell([device.device_id, device.until_ms], {
            userId: device.user_id,
            ...listener,
          });
          if (refusal !== undefined) return true;
        }
        return false;
      }),
    );
    for (const [index, { device_id: deviceId, user_id: userId, tries }] of due.entries()) {
      if (failed[index] === true) this.#tellLater(deviceId, userId, tries + 1);
      else this.#sql.exec('DELETE FROM untold WHERE device_id = ?', deviceId);
    }
    await this.#planAlarm();
  }

  #listeners(): Omit<Registration, 'userId'>[] {
    return this.#sql
      .exec<{ shard: string; id: number }>('SELECT shard, id FROM listener')
      .toArray()
      .map(({ shard, id: registrationId }) => ({ shard, registrationId }));
  }

  /** Stops where more fail than a few broken devices explain: the subscription is not answered as made then. */
  async #tellAll(registration: Registration): Promise<Refusal | undefined> {
    this.#dropOutdated(Date.now());
    const told = [...this.#told].values();
    const failed: string[] = [];
    let refusal: Refusal | undefined;
    const tellNext = async () => {
      for (const one of told) {
        const problem = await this.#tell(one, registration);
        if (problem !== undefined && failed.push(one[0]) > this.#limits.fleetUntoldDevices) refusal = problem;
        if (refusal !== undefined) return;
      }
    };
    await Promise.all(Array.from({ length: tellAtOnce }, tellNext));
    for (const deviceId of failed) this.#tellLater(deviceId, registration.userId, 0);
    if (failed.length > 0) await this.#planAlarm();
    return refusal;
  }

  #tellLater(deviceId: string, userId: number, tries: number): void {
    const nextAtMs = Date.now() + Math.min(firstBackOffMs * 2 ** tries, maxBackOffMs);
    this.#sql.exec(
      'INSERT OR REPLACE INTO untold (device_id, user_id, tries, next_at_ms) VALUES (?, ?, ?, ?)',
      ...[deviceId, userId, tries, nextAtMs],
    );
  }

  async #planAlarm(): Promise<void> {
    const { at } = this.#sql.exec<{ at: number | null }>('SELECT min(next_at_ms) AS at FROM untold').one();
    if (at !== null) await this.ctx.storage.setAlarm(at);
  }

  async #tell(
    [deviceId, untilMs]: [deviceId: string, untilMs: number],
    registration: Registration,
  ): Promise<Refusal | undefined> {
    let refusal: Refusal | undefined;
    for (let tries = 0; tries < maxTries; tries += 1) {
      try {
        const called = callDevice(this.env, deviceId, 'registerFleet', 'idempotent', (device) =>
          device.registerFleet(registration),
        );
        const isReader = await within(this.#limits.objectAnswerMs, called);
        // Unless it has asked again since.
        if (isReader === false && this.#told.get(deviceId) === untilMs) {
          this.#forget(deviceId);
        }
        if (isReader !== undefined) return undefined;
        log('warn', 'device not told of a fleet subscription: it does not answer', { deviceId });
        refusal = { kind: 'object_failed', object: 'DeviceSession', id: deviceId, ...unanswered };
      } catch (error) {
        // The call has logged it.
        if (!(error instanceof RefusedError)) throw error;
        ({ refusal } = error);
      }
    }
    return refusal;
  }

  /** Reads and writes no row where nothing is outdated: whoever gets a lease asks again each second. */
  #isFull(nowMs: number): boolean {
    const { fleetToldDevices: max } = this.#limits;
    if (this.#told.size < max) return false;
    this.#dropOutdated(nowMs);
    return this.#told.size >= max;
  }

  #dropOutdated(nowMs: number): void {
    for (const [deviceId, untilMs] of this.#told) {
      if (untilMs <= nowMs) this.#forget(deviceId);
    }
  }

  #forget(deviceId: string): void {
    this.#sql.exec('DELETE FROM told WHERE device_id = ?', deviceId);
    this.#sql.exec('DELETE FROM untold WHERE device_id = ?', deviceId);
    this.#told.delete(deviceId);
  }

  /** Noted ahead by an hour, so that it is seldom written. */
  #lease(nowMs: number): number {
    const { fleetLeaseMs } = this.#limits;
    this.#leasedUntilMs = nowMs + fleetLeaseMs;
    if (this.#leasedUntilMs > this.#leasesUntilMs) {
      this.#leasesUntilMs = nowMs + hourMs;
      this.#sql.exec('DELETE FROM leases');
      this.#sql.exec('INSERT INTO leases (until_ms) VALUES (?)', this.#leasesUntilMs);
    }
    return fleetLeaseMs;
  }
}

const unanswered = { operation: 'registerFleet', failure: 'retryable' } as const;
