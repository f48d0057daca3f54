// Fifty thousand devices that come back within a second, on a clock that is moved on: what D1 is asked each second by the real
// writer and the real rules of a device. D1 itself is played: fast, slow or overloaded.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, expect, it, vi } from 'vitest';
import type { Effect } from '../../../src/domain/device/core/effects.ts';
import {
  markProjectionBehind,
  noteProjectionEnd,
  planProjection,
  projectionSlice,
  type ProjectionOutcome,
} from '../../../src/domain/device/presence/projection.ts';
import type { DeviceState } from '../../../src/domain/device/core/state.ts';
import { ProjectionWriter } from '../../../src/objects/projection-writer.ts';
import { limitSpecs } from '../../../src/limits.ts';
import { CoreDevice } from '../../unit/device/core-device.ts';

const startMs = 1_790_000_000_000;
const perSecond = limitSpecs.projectionsPerSecond.default;
/** As the writer has it. */
const maxBatch = 50;

/** Time that passes when everything that is due has been done. */
class Clock {
  nowMs = startMs;
  readonly #due = new Map<number, (() => void)[]>();

  at(atMs: number, run: () => void): void {
    const ms = Math.max(Math.ceil(atMs), this.nowMs + 1);
    const others = this.#due.get(ms);
    if (others === undefined) this.#due.set(ms, [run]);
    else others.push(run);
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.at(this.nowMs + ms, resolve));
  }

  async passUntil(untilMs: number, isOver: () => boolean): Promise<void> {
    while (this.nowMs < untilMs && !isOver()) {
      this.nowMs += 1;
      const due = this.#due.get(this.nowMs);
      if (due === undefined) continue;
      this.#due.delete(this.nowMs);
      for (const run of due) run();
      // Whatever follows from it without a wait.
      for (let hop = 0; hop < 20; hop += 1) await Promise.resolve();
    }
  }
}

/** Takes `batchMs` for a batch, and refuses those that come before `overloadedUntilMs`. */
class SlowDatabase {
  readonly rowsBySecond = new Map<number, number>();
  refusedBatches = 0;
  underWay = 0;
  mostAtOnce = 0;
  readonly #clock: Clock;
  readonly #batchMs: number;
  readonly #overloadedUntilMs: number;

  constructor(clock: Clock, batchMs: number, overloadedUntilMs = 0) {
    this.#clock = clock;
    this.#batchMs = batchMs;
    this.#overloadedUntilMs = overloadedUntilMs;
  }

  withSession(): unknown {
    const statement = { bind: () => statement };
    return { prepare: () => statement, batch: (statements: unknown[]) => this.#take(statements.length) };
  }

  async #take(rows: number): Promise<unknown[]> {
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.underWay);
    await this.#clock.wait(this.#batchMs);
    this.underWay -= 1;
    const { nowMs } = this.#clock;
    if (nowMs < this.#overloadedUntilMs) {
      this.refusedBatches += 1;
      throw new Error('D1_ERROR: D1 DB is overloaded. Requests queued for too long.');
    }
    const second = Math.floor((nowMs - startMs) / 1000);
    this.rowsBySecond.set(second, (this.rowsBySecond.get(second) ?? 0) + rows);
    return Array.from({ length: rows }, () => ({ success: true, results: [], meta: {} }));
  }

  get mostASecond(): number {
    return Math.max(...this.rowsBySecond.values());
  }
}

afterEach(() => {
  vi.restoreAllMocks();
});

/** `mostAsksLater`: of the writer, in a second after the first one. */
type Fleet = { written: number; asks: number; mostAsksLater: number; seconds: number };

/** @param callsPerSecond that the platform lets through to one object; those above fail as calls do */
async function reconnect(
  clock: Clock,
  database: SlowDatabase,
  { deviceCount, callsPerSecond = Infinity }: { deviceCount: number; callsPerSecond?: number },
): Promise<Fleet> {
  vi.spyOn(Date, 'now').mockImplementation(() => clock.nowMs);
  vi.spyOn(scheduler, 'wait').mockImplementation((ms) => clock.wait(ms));
  vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  const one = new CoreDevice(startMs).state;
  const asksBySecond = new Map<number, number>();
  const fleet: Fleet = { written: 0, asks: 0, mostAsksLater: 0, seconds: 0 };

  const stub = env.PROJECTION_WRITER.getByName(crypto.randomUUID());
  await runInDurableObject(stub, async (_, context) => {
    const vars = { ...env, LIMITS: '', DB: database } as unknown as Env;
    const writer = new ProjectionWriter(context, vars);
    const ask = async (
      ...[deviceId, projection]: Parameters<ProjectionWriter['write']>
    ): Promise<ProjectionOutcome> => {
      const second = Math.floor((clock.nowMs - startMs) / 1000);
      const asks = (asksBySecond.get(second) ?? 0) + 1;
      asksBySecond.set(second, asks);
      fleet.asks += 1;
      // As the call of an object that is overloaded ends.
      return asks > callsPerSecond ? 'failed' : writer.write(deviceId, projection);
    };
    const deviceOf = (number: number): void => {
      let state: DeviceState = { ...one, identity: { ...one.identity, deviceId: `dev_${number}` } };
      const live = (): void => {
        const effects: Effect[] = [];
        state = planProjection(state, { nowMs: clock.nowMs, effects });
        for (const effect of effects) if (effect.kind === 'write_projection') void write(effect.projection);
        const dueAtMs = projectionSlice.dueAtMs?.(state, clock.nowMs) ?? Infinity;
        if (dueAtMs < Infinity) clock.at(dueAtMs, live);
      };
      const write = async (projection: Parameters<ProjectionWriter['write']>[1]): Promise<void> => {
        const outcome = await ask(`dev_${number}`, projection);
        if (!state.presence.isProjectionBehind) return;
        state = noteProjectionEnd(
          state,
          { kind: 'projection_ended', version: projection.version, outcome },
          { nowMs: clock.nowMs, effects: [] },
        );
        if (state.presence.isProjectionBehind)
          clock.at(projectionSlice.dueAtMs?.(state, clock.nowMs) ?? Infinity, live);
        else fleet.written += 1;
      };
      clock.at(startMs + (number * 1000) / deviceCount, () => {
        state = markProjectionBehind(state);
        live();
      });
    };
    for (let number = 0; number < deviceCount; number += 1) deviceOf(number);
    await clock.passUntil(startMs + 3_600_000, () => fleet.written === deviceCount);
  });
  fleet.seconds = (clock.nowMs - startMs) / 1000;
  fleet.mostAsksLater = Math.max(...[...asksBySecond].filter(([second]) => second > 0).map(([, asks]) => asks));
  return fleet;
}

it('D1 is asked to write no more than the limit each second, until all are written', async () => {
  const clock = new Clock();
  const database = new SlowDatabase(clock, 20);
  const fleet = await reconnect(clock, database, { deviceCount: 50_000 });
  expect(fleet.written).toBe(50_000);
  expect(database.mostASecond).toBeLessThanOrEqual(perSecond + maxBatch);
  expect(database.mostAtOnce).toBe(1);
  expect(fleet.seconds).toBeGreaterThan(50_000 / perSecond - 5);
  expect(fleet.seconds).toBeLessThan((50_000 / perSecond) * 1.3);
  // Once, and again when it is a device's turn.
  expect(fleet.asks / 50_000).toBeLessThan(3);
  expect(fleet.mostAsksLater).toBeLessThanOrEqual(perSecond + maxBatch);
});

it('a D1 that is overloaded is asked less and less often, and one that is slow gets one batch at a time', async () => {
  const clock = new Clock();
  const overloadedSeconds = 60;
  const database = new SlowDatabase(clock, 200, startMs + overloadedSeconds * 1000);
  // Beyond them the platform fails calls of one object.
  const fleet = await reconnect(clock, database, { deviceCount: 10_000, callsPerSecond: 1_000 });
  expect(fleet.written).toBe(10_000);
  expect(database.refusedBatches).toBeLessThan(12);
  expect(database.mostAtOnce).toBe(1);
  expect(database.mostASecond).toBeLessThanOrEqual((1000 / 200) * maxBatch);
  expect(fleet.seconds).toBeLessThan(overloadedSeconds * 5);
});
