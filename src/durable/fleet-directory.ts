// Which relay shards want the messages of all devices of which user: one registration a user and shard, however many
// devices there are. Whoever pushes keeps a copy on a lease (fleet-listeners.ts), so that a message costs no call here; a
// new registration is in effect once the leases on older copies have ended. Knows no device and pushes nothing.
import { DurableObject } from 'cloudflare:workers';
import { readConfig } from '../config.ts';
import { refuse, type Outcome } from '../domain/refusal.ts';

export type FleetRegistration = { userId: number; shard: string; registrationId: number };

export type FleetCopy = {
  version: string;
  /** From when it was asked for. */
  leaseMs: number;
  /** Absent where the reader has this version. */
  registrations?: FleetRegistration[];
};

/** Leases grow with the load, up to so many times the usual one: a new registration waits for so long. */
const maxStretch = 5;

export class FleetDirectory extends DurableObject<Env> {
  readonly #limits = readConfig(this.env).limits;
  readonly #registrations: Map<string, FleetRegistration>;
  /** Differs in each life of the object. */
  readonly #life = crypto.randomUUID();
  #changes = 0;
  #leasedUntilMs: number;
  #longLeaseUntilMs = 0;
  #reads = { second: 0, count: 0, before: 0 };

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec(
      `CREATE TABLE IF NOT EXISTS registration (
         user_id INTEGER NOT NULL, shard TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (user_id, shard)
       ) WITHOUT ROWID`,
    );
    ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS long_lease (until_ms INTEGER NOT NULL)');
    // Copies of a former life may be in use.
    const [longLease] = [...ctx.storage.sql.exec<{ until_ms: number }>('SELECT until_ms FROM long_lease')];
    this.#leasedUntilMs = Math.max(Date.now() + this.#limits.fleetLeaseMs, longLease?.until_ms ?? 0);
    const rows = ctx.storage.sql.exec<{ user_id: number; shard: string; id: number }>('SELECT * FROM registration');
    this.#registrations = new Map(
      [...rows].map(({ user_id: userId, shard, id }) => [keyOf(userId, shard), { userId, shard, registrationId: id }]),
    );
  }

  read(knownVersion: string): FleetCopy {
    const { fleetLeaseMs } = this.#limits;
    const leaseMs = fleetLeaseMs * this.#stretch();
    if (leaseMs > fleetLeaseMs) this.#keepLongLease(Date.now() + leaseMs);
    this.#leasedUntilMs = Math.max(this.#leasedUntilMs, Date.now() + leaseMs);
    const version = `${this.#life} ${this.#changes}`;
    if (version === knownVersion) return { version, leaseMs };
    return { version, leaseMs, registrations: [...this.#registrations.values()] };
  }

  /** Resolves when everybody who pushes knows of it. */
  async register(userId: number, shard: string): Promise<Outcome<null>> {
    const key = keyOf(userId, shard);
    const former = this.#registrations.get(key);
    const { fleetRegistrations: max } = this.#limits;
    if (former === undefined && this.#registrations.size >= max) {
      return refuse({ kind: 'limit_reached', limit: { name: 'fleetRegistrations', max } });
    }
    // Always a higher one: a late removal never meets a newer registration's number.
    const registrationId = Math.max(Date.now(), (former?.registrationId ?? 0) + 1);
    this.#registrations.set(key, { userId, shard, registrationId });
    this.#changes += 1;
    const statement = 'INSERT OR REPLACE INTO registration (user_id, shard, id) VALUES (?, ?, ?)';
    this.ctx.storage.sql.exec(statement, userId, shard, registrationId);
    // Never longer than a lease can be, whatever the clock has done meanwhile.
    const waitMs = this.#leasedUntilMs - Date.now();
    await scheduler.wait(Math.min(Math.max(0, waitMs), maxStretch * this.#limits.fleetLeaseMs));
    return { ok: true, value: null };
  }

  /** The shard has no such socket of the user; it stays where it registered again since. */
  unregister(userId: number, shard: string, registrationId: number): void {
    const key = keyOf(userId, shard);
    if (this.#registrations.get(key)?.registrationId !== registrationId) return;
    this.#registrations.delete(key);
    this.#changes += 1;
    this.ctx.storage.sql.exec('DELETE FROM registration WHERE user_id = ? AND shard = ?', userId, shard);
  }

  /** Written ahead by a usual lease, so that it is seldom written. */
  #keepLongLease(untilMs: number): void {
    if (untilMs <= this.#longLeaseUntilMs) return;
    this.#longLeaseUntilMs = untilMs + this.#limits.fleetLeaseMs;
    this.ctx.storage.sql.exec('DELETE FROM long_lease');
    this.ctx.storage.sql.exec('INSERT INTO long_lease (until_ms) VALUES (?)', this.#longLeaseUntilMs);
  }

  /** By how much more is read in a second than there should be. */
  #stretch(): number {
    const second = Math.floor(Date.now() / 1000);
    const { count, second: last } = this.#reads;
    if (second !== last) this.#reads = { second, count: 0, before: second === last + 1 ? count : 0 };
    this.#reads.count += 1;
    const most = Math.max(this.#reads.before, this.#reads.count);
    return Math.min(maxStretch, Math.ceil(most / this.#limits.fleetReadsPerSecond));
  }
}

function keyOf(userId: number, shard: string): string {
  return `${userId} ${shard}`;
}
