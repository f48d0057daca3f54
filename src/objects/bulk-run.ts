// One run of commands for many devices: gives each device its command and follows it to its end. Each device decides whether it takes
// the command, and keeps the run's key for a day: a give whose answer was lost is repeated and presses once. Works in rounds, by its
// alarm alone; a device that does not answer holds up no other. It must not decide who may control a device.
import { DurableObject } from 'cloudflare:workers';
import { findApiKey } from '../db/accounts/api-keys.ts';
import { findUser } from '../db/accounts/users.ts';
import { openDatabase } from '../db/client.ts';
import { findDevice, listDevicesAfter } from '../db/devices/devices.ts';
import type { Actor } from '../domain/access.ts';
import { parseControl, type ControlParams } from '../domain/control-command.ts';
import { isIdempotent, visibleResult } from '../domain/device/commands/command-life.ts';
import type { CommandView } from '../domain/device/commands/commands.ts';
import { offsetOf, type PageRequest } from '../domain/pagination.ts';
import { isCertainlyUnpublished } from '../domain/publish-outcome.ts';
import { accept, refuse, wireErrorOf, type Outcome, type Refusal } from '../domain/refusal.ts';
import { dayMs, minuteMs, secondMs, toIso } from '../domain/time.ts';
import { isDeviceId } from '../domain/topics.ts';
import type { BulkOutcome, BulkView } from '../protocol/http/bulk.ts';
import { orFailed } from './calls/background.ts';
import { callDevice, resultOr } from './calls/stubs.ts';
import { within } from './calls/within.ts';

/** One invocation may call 1 000 objects, and together with the gives of a round no second has more than 200 gives. */
const perRound = { looks: 300, gives: 50 };
const givesPerSecond = 150;
/** Answers that come later count as well; after `answerMs` the device is asked again, for `askForMs`. */
const roundMs = secondMs;
const answerMs = 10 * secondMs;
const askForMs = 2 * minuteMs;
/** If the object ends in the midst of a round. */
const nextRoundMs = 15 * secondMs;
const lookAfterMs = { first: 250, most: 4 * secondMs };
const pageSize = 100;
const keptMs = 7 * dayMs;

type Item = { deviceId: string; params: ControlParams };
type Scene = { sceneId: string; name: string; putBack: boolean; deadlineSeconds: number };
type Fleet = { productId: number; params: ControlParams };
/** `digest`: of the request. `fleet`: devices of a product that its owner has; they are listed as the run proceeds. */
export type BulkOrder = { actor: Actor; digest: string; scene: Scene | null; fleet: Fleet | null } & {
  dryRun: boolean;
  maxInFlight: number;
};
/** `cursor`: row of the last device that was listed; null if all are. */
type Run = BulkOrder & { createdAtMs: number; isPaused: boolean; cursor: number | null };
/** `before`: what the device showed before, as JSON. `back_of`: this command puts the device of that row back. */
type Row = Record<'device_id' | 'params', string> &
  Record<'position' | 'begun_at' | 'looks', number> &
  Record<'reason' | 'command_id' | 'command' | 'before', string | null> & {
    outcome: BulkOutcome;
    back_of: number | null;
  };
type Change = { outcome: BulkOutcome; reason?: string | null; commandId?: string; command?: CommandView };

const notFound = refuse({ kind: 'not_found', what: 'bulk' });

export class BulkRun extends DurableObject<Env> {
  readonly #bulkId = this.ctx.id.name ?? '';
  readonly #sql = this.ctx.storage.sql;
  readonly #settled = Promise.withResolvers<undefined>();
  #giveAtMs = 0;
  #checkedAtMs = 0;

  /** The same order again is the same run. */
  async start(order: BulkOrder, items: readonly Item[]): Promise<Outcome<{ bulkId: string; total: number }>> {
    const former = this.#run;
    if (former !== undefined && former.digest !== order.digest) {
      return refuse({ kind: 'invalid_input', path: 'idempotencyKey', problem: 'was used for another command' });
    }
    if (former === undefined) {
      this.ctx.storage.transactionSync(() => {
        this.#sql.exec(
          `CREATE TABLE item (position INTEGER PRIMARY KEY, device_id TEXT NOT NULL, params TEXT NOT NULL,
             outcome TEXT NOT NULL DEFAULT 'waiting', reason TEXT, begun_at INTEGER, look_at INTEGER NOT NULL DEFAULT 0,
             looks INTEGER NOT NULL DEFAULT 0, command_id TEXT, command TEXT, before TEXT, back_of INTEGER UNIQUE);
           CREATE INDEX item_by_outcome ON item (outcome, look_at)`,
        );
        this.#insert(items);
        this.#change({ ...order, createdAtMs: Date.now(), isPaused: false, cursor: order.fleet && 0 });
      });
    }
    await this.#plan();
    return accept({ bulkId: this.#bulkId, total: this.#count('back_of IS NULL') });
  }

  /** @param waitSeconds until the run is settled, at most */
  async view(actor: Actor, page: PageRequest, waitSeconds = 0): Promise<Outcome<BulkView>> {
    const run = this.#runOf(actor);
    if (run === undefined) return notFound;
    if (waitSeconds > 0 && this.#isOpen) await within(waitSeconds * secondMs, this.#settled.promise);
    const { dryRun, scene, createdAtMs, isPaused, cursor } = this.#run ?? run;
    const summary = this.#sql
      .exec<{ outcome: BulkOutcome; count: number }>(
        'SELECT outcome, count(*) AS count FROM item WHERE back_of IS NULL GROUP BY outcome',
      )
      .toArray();
    const putBack = this.#rows('back_of IS NOT NULL').map(viewRow);
    const missing = this.#missing(run);
    const isComplete = missing && missing.length === 0;
    return accept({
      bulkId: this.#bulkId,
      state: !this.#isOpen ? 'settled' : isPaused ? 'paused' : 'running',
      dryRun,
      createdAt: toIso(createdAtMs),
      summary: Object.fromEntries(summary.map(({ outcome, count }) => [outcome, count])),
      listed: cursor === null,
      scene: scene && { sceneId: scene.sceneId, name: scene.name, isComplete, missing: missing ?? [], putBack },
      list: this.#rows('back_of IS NULL ORDER BY position LIMIT ? OFFSET ?', page.size, offsetOf(page)).map(viewRow),
      total: summary.reduce((sum, { count }) => sum + count, 0),
      ...page,
    });
  }

  /** While it is paused no further device gets its command. */
  async pause(actor: Actor, isPaused: boolean): Promise<Outcome<null>> {
    if (this.#runOf(actor) === undefined) return notFound;
    this.#change({ isPaused });
    await this.#plan();
    return accept(null);
  }

  /** The alarm of the next round stands before the calls: the object may end in their midst. */
  override async alarm(): Promise<void> {
    const nowMs = Date.now();
    const run = this.#run;
    if (run === undefined) return;
    if (nowMs >= run.createdAtMs + keptMs) return this.ctx.storage.deleteAll();
    await this.ctx.storage.setAlarm(nowMs + nextRoundMs);
    this.#endScene(run);
    const mayGive = () => nowMs >= this.#giveAtMs && this.#hasWaiting && this.#run?.isPaused === false;
    if (mayGive()) await this.#prepareGives(run, nowMs);
    const looks = this.#take("outcome = 'under_way' AND look_at <= ?", nowMs, perRound.looks, nowMs);
    const room = Math.min(perRound.gives, run.maxInFlight - this.#count("outcome = 'under_way'"));
    // Meanwhile it may have been paused, or another round has given.
    const gives = this.#take("outcome = 'waiting'", nowMs, mayGive() ? Math.max(0, room) : 0);
    if (gives.length > 0) this.#giveAtMs = nowMs + Math.ceil((gives.length * secondMs) / givesPerSecond);
    let isOver = false;
    const asked = [...looks, ...gives].map(async (row) => {
      await this.#askOne(run, row);
      if (isOver) await this.#plan();
    });
    await within(roundMs, Promise.all(asked));
    isOver = true;
    await this.#plan();
  }

  /** Once a minute D1 says whether account and API key of the giver are valid. Lists further devices of a product. */
  async #prepareGives({ actor, fleet, createdAtMs }: Run, nowMs: number): Promise<void> {
    const { userId, keyId } = actor;
    const database = openDatabase(this.env.DB);
    if (nowMs >= Math.max(this.#checkedAtMs, createdAtMs) + minuteMs) {
      const row = await (keyId === null ? findUser(database, userId) : findApiKey(database, keyId));
      const isValid = row !== undefined && !('disabledAt' in row && row.disabledAt !== null);
      if (!isValid) {
        this.#sql.exec("UPDATE item SET outcome = 'refused', reason = 'forbidden' WHERE outcome = 'waiting'");
        this.#change({ cursor: null });
      }
      this.#checkedAtMs = nowMs;
    }
    const cursor = this.#run?.cursor ?? null;
    if (fleet === null || cursor === null || this.#count("outcome = 'waiting'") >= perRound.gives) return;
    const { productId, params } = fleet;
    const filter = { productId, ownerId: userId, isUnclaimed: true } as const;
    const page = await listDevicesAfter(database, cursor, pageSize, filter);
    this.ctx.storage.transactionSync(() => {
      // Another round has taken the page meanwhile.
      if (this.#run?.cursor !== cursor) return;
      this.#insert(page.map(({ deviceId }) => ({ deviceId, params })));
      this.#change({ cursor: page.length === pageSize ? (page.at(-1)?.id ?? null) : null });
    });
  }

  /** Notes them as asked, before they are. */
  #take(where: string, nowMs: number, limit: number, ...bindings: number[]): Row[] {
    const chosen = `SELECT position FROM item WHERE ${where} ORDER BY look_at, position LIMIT ?`;
    const update = `UPDATE item SET outcome = 'under_way', looks = looks + 1, look_at = ?, begun_at = coalesce(begun_at, ?)
      WHERE position IN (${chosen}) RETURNING *`;
    return this.#sql.exec<Row>(update, nowMs + answerMs, nowMs, ...bindings, limit).toArray();
  }

  async #askOne(run: Run, row: Row): Promise<void> {
    const isLate = Date.now() >= row.begun_at + askForMs;
    // A command that may not have been given yet is not given so late.
    const isAsked = !isLate || row.command_id !== null;
    const answer = isAsked ? await within(answerMs, resultOr(undefined, this.#ask(run, row))) : undefined;
    if (answer === undefined && !isLate) return;
    const { outcome, reason, commandId, command } = answer ?? { outcome: 'unknown', reason: 'no_answer' };
    this.#sql.exec(
      `UPDATE item SET outcome = ?, reason = ?, command_id = coalesce(?, command_id), command = coalesce(?, command),
         look_at = ? WHERE position = ?`,
      ...[outcome, reason ?? null, commandId ?? null, command === undefined ? null : JSON.stringify(command)],
      ...[Date.now() + Math.min(lookAfterMs.first * 2 ** (row.looks - 1), lookAfterMs.most), row.position],
    );
    this.#endScene(run);
  }

  /** Looks how far the command is, or gives it. */
  async #ask({ actor, dryRun, scene }: Run, row: Row): Promise<Change> {
    const { device_id: deviceId, command_id: commandId, back_of: backOf } = row;
    const notTaken = async (refusal: Refusal): Promise<Change> => {
      const isAbsent = refusal.kind === 'not_found' && refusal.what === 'device';
      const reading = isAbsent ? findDevice(openDatabase(this.env.DB), deviceId) : Promise.resolve(undefined);
      const record = await orFailed('record of a device not read', { deviceId }, reading);
      const isOwn = record !== 'failed' && record?.device.ownerId === actor.userId;
      const { message: reason } = wireErrorOf(isOwn ? { kind: 'device_not_activated', deviceId } : refusal);
      // It may have been given before.
      return { outcome: row.looks > 1 && !dryRun ? 'unknown' : 'refused', reason };
    };
    if (!isDeviceId(deviceId)) return { outcome: 'refused', reason: 'device_not_found' };
    const device = callDevice(this.env, deviceId, 'once');
    if (commandId !== null) {
      const read = await device.readCommand(actor, commandId);
      if (!read.ok) return notTaken(read.refusal);
      const command = read.value;
      if (!command.final) return { outcome: 'under_way', command };
      const isUnknown = command.state === 'expired' && command.steps.brokerAcknowledged === null;
      if (isUnknown) return { outcome: 'unknown', reason: 'outcome_unknown', command };
      return { outcome: command.state as BulkOutcome, reason: command.reason, command };
    }
    if (dryRun) {
      const would = await device.wouldTake(actor);
      const refusal = would.ok ? would.value : would.refusal;
      return refusal === null ? { outcome: 'would_take' } : notTaken(refusal);
    }
    const params = JSON.parse(row.params) as ControlParams;
    const [name] = visibleResult(params) ?? [];
    if (scene?.putBack === true && row.before === null && name !== undefined) {
      const shown = await device.properties(actor);
      const before = shown.ok ? shown.value.list.find((property) => property.name === name)?.value : undefined;
      const [former] = backOf === null ? [] : this.#rows('position = ?', backOf);
      // Something else moved it since.
      if (former && before !== valueOf(former.params)) return { outcome: 'cancelled', reason: 'moved' };
      this.#sql.exec('UPDATE item SET before = ? WHERE position = ?', JSON.stringify(before ?? null), row.position);
    }
    const idempotencyKey = `bulk ${this.#bulkId}${backOf === null ? '' : ' back'}`;
    const via = scene === null ? {} : { via: 'scene' as const };
    const request = { params, idempotencyKey, waitSeconds: undefined, ttlSeconds: undefined, ...via };
    const given = await device.command(actor, request);
    if (given.ok) return { outcome: 'under_way', commandId: given.value.commandId };
    const { refusal } = given;
    if (refusal.kind !== 'not_published') return notTaken(refusal);
    if (isCertainlyUnpublished(refusal.because)) return { outcome: 'undelivered', reason: 'broker_unavailable' };
    // The device may have it, and reply.
    return { outcome: 'under_way', commandId: refusal.commandId };
  }

  /** Devices that did not confirm a scene in its time; null before its end. */
  #missing(run: Run): string[] | null {
    const endsAtMs = endOf(run);
    const rows = run.scene === null ? [] : this.#rows('back_of IS NULL');
    const isOpen = rows.some(({ outcome }) => outcome === 'waiting' || outcome === 'under_way');
    if (isOpen && Date.now() < endsAtMs) return null;
    return rows.filter((row) => !isInTime(row, endsAtMs)).map((row) => row.device_id);
  }

  /** Once a scene is over and not complete: gives nothing more, and puts back what was confirmed. */
  #endScene(run: Run): void {
    if (run.scene === null || !this.#missing(run)?.length) return;
    const isRest = "back_of IS NULL AND outcome = 'waiting'";
    this.#sql.exec(`UPDATE item SET outcome = 'cancelled', reason = 'deadline' WHERE ${isRest}`);
    if (!run.scene.putBack) return;
    for (const { position, device_id, params, before } of this.#rows("back_of IS NULL AND outcome = 'confirmed'")) {
      const back = commandBack(params, before);
      const insert = 'INSERT OR IGNORE INTO item (device_id, params, back_of) VALUES (?, ?, ?)';
      if (back !== undefined) this.#sql.exec(insert, device_id, JSON.stringify(back), position);
    }
  }

  async #plan(): Promise<void> {
    const nowMs = Date.now();
    const run = this.#run;
    if (run === undefined) return;
    const { createdAtMs, isPaused, maxInFlight } = run;
    const underWay = "SELECT min(look_at) AS at, count(*) AS count FROM item WHERE outcome = 'under_way'";
    const { at, count } = this.#sql.exec<{ at: number | null; count: number }>(underWay).one();
    const endsAtMs = endOf(run);
    const mayGive = !isPaused && count < maxInFlight && this.#hasWaiting;
    const due = [at ?? [], mayGive ? Math.max(nowMs, this.#giveAtMs) : [], endsAtMs > nowMs ? endsAtMs : []];
    if (!this.#isOpen) this.#settled.resolve(undefined);
    await this.ctx.storage.setAlarm(Math.min(createdAtMs + keptMs, ...due.flat()));
  }

  /** Undefined for another user, and for an API key of a product if the run was made with none. */
  #runOf({ userId, productKey }: Actor): Run | undefined {
    const run = this.#run;
    const isOwn = run?.actor.userId === userId && (productKey ?? run.actor.productKey) === run.actor.productKey;
    return isOwn ? run : undefined;
  }

  get #run(): Run | undefined {
    return this.ctx.storage.kv.get<Run>('run');
  }

  #change(change: Partial<Run>): void {
    this.ctx.storage.kv.put('run', { ...this.#run, ...change });
  }

  get #isOpen(): boolean {
    return this.#hasWaiting || this.#rows("outcome = 'under_way' LIMIT 1").length > 0;
  }

  get #hasWaiting(): boolean {
    return (this.#run?.cursor ?? null) !== null || this.#rows("outcome = 'waiting' LIMIT 1").length > 0;
  }

  #insert(items: readonly Item[]): void {
    const values = "SELECT value ->> 'deviceId', value ->> 'params' FROM json_each(?)";
    this.#sql.exec(`INSERT INTO item (device_id, params) ${values}`, JSON.stringify(items));
  }

  #rows(where: string, ...bindings: number[]): Row[] {
    return this.#sql.exec<Row>(`SELECT * FROM item WHERE ${where}`, ...bindings).toArray();
  }

  #count(where: string): number {
    return this.#sql.exec<{ count: number }>(`SELECT count(*) AS count FROM item WHERE ${where}`).one().count;
  }
}

const endOf = ({ scene, createdAtMs }: Run) => createdAtMs + (scene?.deadlineSeconds ?? 0) * secondMs;

/** Shown by a report, or by the reply if nothing else can show it. */
function isInTime({ outcome, params, command }: Row, endsAtMs: number): boolean {
  const steps = command === null ? undefined : (JSON.parse(command) as CommandView).steps;
  if (outcome === 'confirmed') return (steps?.confirmed ?? Infinity) <= endsAtMs;
  const isShown = outcome === 'acknowledged' && valueOf(params) === undefined;
  return isShown && (steps?.deviceAcknowledged ?? Infinity) <= endsAtMs;
}

const valueOf = (params: string) => visibleResult(JSON.parse(params) as ControlParams)?.[1];

/** Undefined for a momentary command, and for a device that was there before, or where no command can put it. */
function commandBack(sent: string, before: string | null): ControlParams | undefined {
  const params = JSON.parse(sent) as ControlParams;
  const [name, value] = (isIdempotent(params) && visibleResult(params)) || [];
  const former: unknown = JSON.parse(before ?? 'null');
  if (name === undefined || former === null || former === value) return undefined;
  const back = parseControl(name === 'angle' ? { angle: former } : { action: 'toggle', position: former });
  return back.ok ? back.value : undefined;
}

function viewRow({ device_id: deviceId, outcome, reason, command }: Row): BulkView['list'][number] {
  return { deviceId, outcome, reason, command: command === null ? null : (JSON.parse(command) as CommandView) };
}
