// One campaign: offers firmware to the devices of a product, wave by wave, and pauses itself if a wave goes wrong. Each device decides about
// its update and reports what becomes of it; this object asks as well, ever more rarely. Works in rounds, by its alarm.
import { DurableObject } from 'cloudflare:workers';
import { openDatabase } from '../db/client.ts';
import { listDevicesAfter } from '../db/devices/devices.ts';
import { deleteCampaign, setCampaignState } from '../db/products/firmware.ts';
import { readFigures } from '../db/products/products.ts';
import { countFailures, isOver, isSettled, mayOffer, pauseCauseOf, type WaveCounts } from '../domain/firmware/waves.ts';
import { offsetOf, type PageRequest } from '../domain/pagination.ts';
import type { UpdateReport } from '../domain/device/firmware/updates.ts';
import { accept, refuse, type Outcome } from '../domain/refusal.ts';
import { dayMs, hourMs, minuteMs, secondMs, toIso } from '../domain/time.ts';
import { describeError, log } from '../log.ts';
import { hashBeginLength, type Manifest } from '../protocol/firmware.ts';
import type { CampaignBody, CampaignOutcome, CampaignView } from '../protocol/http/firmware.ts';
import type { CampaignState } from '../protocol/vocabulary.ts';
import { callDevice, resultOr } from './calls/stubs.ts';
import { within } from './calls/within.ts';

/** Each call wakes a device's object. At most half of them are looks while there are devices to offer it to. */
const perRound = 60;
const roundMs = secondMs;
const answerMs = 10 * secondMs;
/** If the object ends in the midst of a round. */
const nextRoundMs = 15 * secondMs;
/** A device tells what becomes of its update. In case that this was lost, and for its presence, it is asked after half as long again. */
const lookAfterMs = { least: minuteMs, most: 6 * hourMs };
/** Until then a device that restarts counts as there. */
const restartMs = 5 * minuteMs;
/** While its time has not come, and while D1 does not answer. */
const waitMs = minuteMs;
const keptMs = 90 * dayMs;

export type CampaignOrder = {
  productId: number;
  productKey: string;
  manifest: Manifest;
  createdAtMs: number;
  order: CampaignBody;
};
/** `isFilled`: the devices of the wave are all listed. `settledAtMs`: when the last of them had an end. `written`: what D1 knows. */
type Run = CampaignOrder & {
  state: CampaignState;
  written: CampaignState;
  pausedBecause: CampaignView['pausedBecause'];
  forgiven: { failures: number; away: number };
  wave: number;
  isFilled: boolean;
  settledAtMs: number | null;
  endedAtMs: number | null;
};
type Item = CampaignView['list'][number];
type Row = Omit<Item, 'since'> & { since: number };
type Report = Omit<UpdateReport, 'reason'> & Pick<Item, 'reason'> & { usuallyAway?: number };

const beginning = { wave: 0, isFilled: false, forgiven: { failures: 0, away: 0 }, settledAtMs: null };
const openStates = "('offered', 'accepted', 'downloading', 'downloaded', 'restarting', 'postponed')";
/** Devices that have restarted, or should have. */
const updatedStates = "('restarting', 'proved', 'rolled_back', 'unknown', 'failed')";
/** Its object has not begun, or never will again. */
const gone: Report = { state: 'skipped', reason: 'not_active', isOnline: true };
const notFound = refuse({ kind: 'not_found', what: 'campaign' });
const isNext = ({ wave }: Run) => `state = 'waiting' AND wave <= ${wave}`;

export class Campaign extends DurableObject<Env> {
  readonly #campaignId = this.ctx.id.name ?? '';
  readonly #sql = this.ctx.storage.sql;

  /** The same again changes nothing. */
  async start(order: CampaignOrder): Promise<void> {
    if (this.#run !== undefined) return;
    this.#sql.exec(
      `CREATE TABLE device (deviceId TEXT PRIMARY KEY, row INTEGER, wave INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'waiting',
         reason TEXT, since INTEGER NOT NULL DEFAULT 0, lookAt INTEGER NOT NULL DEFAULT 0, isAway INTEGER NOT NULL DEFAULT 0,
         usuallyAway REAL NOT NULL DEFAULT 0);
       CREATE INDEX device_by_state ON device (state, lookAt);
       CREATE INDEX device_by_wave ON device (wave, state)`,
    );
    const begin = { state: 'running', written: 'running', pausedBecause: null, endedAtMs: null } as const;
    this.ctx.storage.kv.put<Run>('run', { ...order, ...begin, ...beginning });
    await this.ctx.storage.setAlarm(Date.now());
  }

  view(page: PageRequest): Outcome<CampaignView> {
    const run = this.#run;
    if (run === undefined) return notFound;
    const { order, manifest, state, createdAtMs, endedAtMs, pausedBecause, wave } = run;
    const rows = this.#rows(`true ORDER BY wave, rowid LIMIT ${page.size} OFFSET ${offsetOf(page)}`);
    return accept({
      campaignId: this.#campaignId,
      version: manifest.version,
      state,
      createdAt: toIso(createdAtMs),
      endedAt: toIso(endedAtMs),
      pausedBecause,
      order,
      wave,
      waves: order.waves.map((_, index) => this.#countWave(index)),
      list: rows.map(({ since, ...row }) => ({ ...row, since: toIso(since) })),
      total: this.#sql.exec<{ count: number }>('SELECT count(*) AS count FROM device').one().count,
      ...page,
    });
  }

  /** Answers when D1 has it: a device that is downloading gets no further range. */
  async change(change: 'pause' | 'resume' | 'stop'): Promise<Outcome<null>> {
    const run = this.#run;
    if (run === undefined) {
      // It could not begin: the next one is free to.
      await setCampaignState(openDatabase(this.env.DB), this.#campaignId, 'stopped');
      return notFound;
    }
    if (run.endedAtMs !== null) return refuse({ kind: 'campaign_over', campaignId: this.#campaignId });
    if (change === 'pause') this.#change({ state: 'paused', pausedBecause: 'maker' });
    if (change === 'stop') this.#end('stopped');
    if (change === 'resume') {
      const wave = this.#countWave(run.wave);
      const forgiven = { failures: countFailures(wave), away: wave.away };
      this.#change({ state: 'running', pausedBecause: null, forgiven });
    }
    await this.#writeState();
    await this.ctx.storage.setAlarm(Date.now());
    return accept(null);
  }

  /** Something became of the device's update. Reports that overtook each other are put right when it is asked. */
  async report(deviceId: string, report: UpdateReport): Promise<void> {
    const query = 'SELECT * FROM device WHERE deviceId = ?';
    const [row] = this.#run === undefined ? [] : this.#sql.exec<Row>(query, deviceId);
    if (row === undefined) return;
    this.#note(row, report);
    const alarmAt = (await this.ctx.storage.getAlarm()) ?? Infinity;
    if (alarmAt > Date.now() + roundMs) await this.ctx.storage.setAlarm(Date.now() + roundMs);
  }

  /** The alarm of the next round stands before the calls: the object may end in their midst. */
  override async alarm(): Promise<void> {
    const run = this.#run;
    if (run === undefined) return;
    const nowMs = Date.now();
    await this.ctx.storage.setAlarm(nowMs + nextRoundMs);
    try {
      if (nowMs >= (run.endedAtMs ?? Infinity) + keptMs) {
        await deleteCampaign(openDatabase(this.env.DB), this.#campaignId);
        await this.ctx.storage.deleteAll();
        return;
      }
      await this.#fillWave(run);
      const isOffering = this.#isOffering;
      const room = isOffering ? perRound / 2 : perRound;
      const looks = this.#take(`(${this.#isWatched}) AND lookAt <= ${nowMs}`, nowMs, room);
      const offers = isOffering ? this.#take(isNext(run), nowMs, perRound - looks.length) : [];
      await within(roundMs, Promise.all([...looks, ...offers].map((row) => this.#ask(run, row))));
      this.#judge();
      await this.#writeState();
    } catch (error) {
      log('warn', 'round of a campaign failed', { campaignId: this.#campaignId, ...describeError(error) });
    }
    await this.#plan();
  }

  /** Devices with an open update; and while a wave is the present one, whether its updated devices stay. */
  get #isWatched(): string {
    const { wave = 0, endedAtMs = 0 } = this.#run ?? {};
    const isOpen = `state IN ${openStates}`;
    return endedAtMs === null ? `${isOpen} OR (wave = ${wave} AND state IN ${updatedStates})` : isOpen;
  }

  get #mayOffer(): boolean {
    const run = this.#run;
    return run?.state === 'running' && mayOffer(run.order, Date.now());
  }

  get #isOffering(): boolean {
    const run = this.#run;
    return run !== undefined && this.#mayOffer && this.#rows(`${isNext(run)} LIMIT 1`).length > 0;
  }

  /** Lists devices of the present wave, in the order of their rows in D1, behind those of the waves before. */
  async #fillWave({ order, wave, productId, isFilled, state }: Run): Promise<void> {
    const wanted = order.waves[wave];
    if (state !== 'running' || isFilled || wanted === undefined) return;
    const isNamed = 'devices' in wanted;
    const listed = isNamed
      ? wanted.devices.map((deviceId) => ({ id: null, deviceId }))
      : await this.#list(productId, wanted);
    const values = "SELECT value ->> 'deviceId', value ->> 'id', ? FROM json_each(?)";
    // A device that was named before is passed over, in the wave that it has.
    const isThere = 'WHERE true ON CONFLICT DO UPDATE SET row = coalesce(excluded.row, row)';
    this.#sql.exec(`INSERT INTO device (deviceId, row, wave) ${values} ${isThere}`, wave, JSON.stringify(listed));
    if (isNamed || listed.length === 0) this.#change({ isFilled: true });
  }

  async #list(productId: number, { percent }: { percent: number }) {
    const database = openDatabase(this.env.DB);
    const { devices } = await readFigures(database, productId, 0);
    const query = 'SELECT count(*) AS listed, coalesce(max(row), 0) AS newest FROM device';
    const { listed, newest } = this.#sql.exec<{ listed: number; newest: number }>(query).one();
    const missing = percent === 100 ? Infinity : Math.ceil((devices * percent) / 100) - listed;
    const rows = await listDevicesAfter(database, newest, Math.max(0, Math.min(missing, perRound)), { productId });
    return rows.map(({ id, deviceId }) => ({ id, deviceId }));
  }

  /** Notes them as asked, before they are. */
  #take(where: string, nowMs: number, limit: number): Row[] {
    const chosen = `SELECT deviceId FROM device WHERE ${where} ORDER BY lookAt LIMIT ${Math.max(0, limit)}`;
    return this.#sql
      .exec<Row>(`UPDATE device SET lookAt = ? WHERE deviceId IN (${chosen}) RETURNING *`, nowMs + answerMs)
      .toArray();
  }

  async #ask(run: Run, row: Row): Promise<void> {
    const { productKey, manifest, createdAtMs: orderedAtMs } = run;
    const { version, size, sha256, minimumVersion = null, security: isSecurity = false } = manifest;
    const hash = sha256.slice(0, hashBeginLength);
    const about = { campaignId: this.#campaignId, orderedAtMs, productKey, hash };
    const offer = { ...about, version, minimumVersion, size, isSecurity };
    const [isNew, isStopped] = [row.state === 'waiting', this.#run?.state === 'stopped'];
    // It was paused meanwhile.
    if (isNew && !this.#mayOffer) return;
    const asked = callDevice(this.env, row.deviceId, 'idempotent').offerUpdate(offer, isStopped, isNew);
    const answered = await within(answerMs, resultOr(undefined, asked));
    // Of none it is asked again.
    if (answered !== undefined) this.#note(row, answered.ok ? answered.value : gone);
  }

  #note(row: Row, { state, reason, isOnline, usuallyAway }: Report): void {
    const nowMs = Date.now();
    const since = row.state === state ? row.since : nowMs;
    const lookAt = nowMs + Math.min(Math.max((nowMs - since) / 2, lookAfterMs.least), lookAfterMs.most);
    this.#sql.exec(
      `UPDATE device SET state = ?, reason = ?, since = ?, lookAt = ?, isAway = ?, usuallyAway = coalesce(?, usuallyAway)
       WHERE deviceId = ?`,
      ...[state, reason, since, lookAt, isOnline ? 0 : 1, usuallyAway ?? null, row.deviceId],
    );
  }

  /** Pauses, goes on to the next wave, or ends. */
  #judge(): void {
    const run = this.#run;
    if (run?.state !== 'running') return;
    const { order, wave, isFilled, settledAtMs, forgiven } = run;
    const nowMs = Date.now();
    const counts = this.#countWave(wave);
    const cause = pauseCauseOf(counts, order.stopAt, forgiven);
    if (cause !== undefined) {
      this.#change({ state: 'paused', pausedBecause: cause });
      log('warn', 'campaign paused', { campaignId: this.#campaignId, cause, wave, ...counts.outcomes });
      return;
    }
    const isLast = wave + 1 === order.waves.length;
    const isOpen = !isFilled || !isSettled(counts) || (isLast && counts.absent > 0);
    const sinceMs = isOpen ? null : (settledAtMs ?? nowMs);
    const isReady = sinceMs !== null && nowMs >= sinceMs + order.waitSeconds * secondMs;
    if (isOver(order, nowMs) || (isReady && isLast)) this.#end('done');
    else this.#change(isReady ? { ...beginning, wave: wave + 1 } : { settledAtMs: sinceMs });
  }

  /** What was not offered stays so; what was goes on to its end. */
  #end(state: 'stopped' | 'done'): void {
    this.#change({ state, pausedBecause: null, endedAtMs: Date.now() });
    this.#sql.exec("UPDATE device SET state = 'superseded', reason = 'stopped' WHERE state = 'waiting'");
    if (state === 'stopped') this.#sql.exec(`UPDATE device SET lookAt = 0 WHERE state IN ${openStates}`);
  }

  async #writeState(): Promise<void> {
    const run = this.#run;
    if (run === undefined || run.written === run.state) return;
    await setCampaignState(openDatabase(this.env.DB), this.#campaignId, run.state);
    this.#change({ written: run.state });
  }

  async #plan(): Promise<void> {
    const run = this.#run;
    if (run === undefined) return;
    const nowMs = Date.now();
    const { at } = this.#sql
      .exec<{ at: number | null }>(`SELECT min(lookAt) AS at FROM device WHERE ${this.#isWatched}`)
      .one();
    const isFilling = run.state === 'running' && !run.isFilled;
    const next = [at ?? Infinity, isFilling || this.#isOffering ? nowMs : nowMs + lookAfterMs.most];
    const waits = run.settledAtMs === null ? nowMs + waitMs : run.settledAtMs + run.order.waitSeconds * secondMs;
    if (run.state === 'running') next.push(waits);
    if (run.written !== run.state) next.push(nowMs + waitMs);
    await this.ctx.storage.setAlarm(Math.max(Math.min(...next), nowMs + roundMs));
  }

  #countWave(wave: number): WaveCounts {
    const isUpdated = `state IN ${updatedStates} AND (state <> 'restarting' OR since <= ${Date.now() - restartMs})`;
    const rows = this.#sql
      .exec<{ state: CampaignOutcome; count: number; absent: number; away: number; usual: number }>(
        `SELECT state, count(*) AS count, sum(state = 'offered' AND isAway) AS absent, sum(iif(${isUpdated}, isAway, 0)) AS away, sum(iif(${isUpdated}, usuallyAway, 0)) AS usual
         FROM device WHERE wave = ? GROUP BY state`,
        wave,
      )
      .toArray();
    const sum = (name: 'count' | 'absent' | 'away' | 'usual') => rows.reduce((total, row) => total + row[name], 0);
    const outcomes = Object.fromEntries(rows.map(({ state, count }) => [state, count]));
    return { devices: sum('count'), outcomes, absent: sum('absent'), away: sum('away'), usuallyAway: sum('usual') };
  }

  #rows(where: string): Row[] {
    return this.#sql.exec<Row>(`SELECT deviceId, wave, state, reason, since FROM device WHERE ${where}`).toArray();
  }

  get #run(): Run | undefined {
    return this.ctx.storage.kv.get<Run>('run');
  }

  #change(change: Partial<Run>): void {
    this.ctx.storage.kv.put('run', { ...this.#run, ...change });
  }
}
