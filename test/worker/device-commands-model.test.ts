// The life of commands as a model: whatever happens in whatever order, asleep or awake in between, the real object says
// of each command what a few lines of bookkeeping say, and publishes what they allow and nothing else.
import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { topicActions, type TopicAction } from '../../src/protocol/mqtt.ts';
import { fuzzSeed } from '../rig/fuzzing.ts';
import { TestBridge } from '../rig/workerd/bridge.ts';
import { ingest, provisionDevice, sessionOf, type TestDevice } from '../rig/workerd/provision.ts';
import { RefusedError } from '../../src/domain/refusal.ts';

const { propertyPost, propertySet } = topicActions;

type Known = {
  id: string;
  position: string | undefined;
  keptUntilMs: number | undefined;
  expiresAtMs: number;
  isPublished: boolean;
  wasOnline: boolean;
  code: number | undefined;
  isConfirmed: boolean;
  isCancelled: boolean;
};
type Model = {
  nowMs: number;
  isOnline: boolean;
  /** The broker said that a session began: silence ends nothing. */
  hasSession: boolean;
  heardAtMs: number;
  hasBroker: boolean;
  position: string | undefined;
  known: Known[];
};
type Real = { device: TestDevice; session: ReturnType<typeof sessionOf>; seq: number };
type Step = fc.AsyncCommand<Model, Real>;

let bridge: TestBridge;
beforeAll(async () => {
  bridge = await TestBridge.dialIn();
});
afterAll(() => {
  bridge.close();
});
afterEach(() => {
  vi.restoreAllMocks();
});

const isSuccess = (code: number) => code === 0 || (code >= 200 && code < 300);
const isSettled = (one: Known) => one.code !== undefined || one.isConfirmed || one.isCancelled;
const isPending = (model: Model, one: Known) =>
  one.keptUntilMs !== undefined && one.isPublished && !isSettled(one) && model.nowMs < one.keptUntilMs;

function expectedState(model: Model, one: Known): string {
  if (one.code !== undefined && !isSuccess(one.code)) return 'failed';
  if (one.isConfirmed) return 'confirmed';
  if (one.code !== undefined) return 'acknowledged';
  if (one.isCancelled) return 'cancelled';
  if (!one.isPublished) return 'undelivered';
  if (model.nowMs >= one.expiresAtMs) return 'expired';
  if (one.keptUntilMs !== undefined && (!model.isOnline || !one.wasOnline)) return 'waiting';
  return 'sent';
}

/** Shorter than any silence that counts: that is the matter of another model. */
const longestSilenceMs = 90_000;

/** Time goes on a little with every step. */
function tick(model: Model, byMs = 10): void {
  model.nowMs += byMs;
  vi.spyOn(Date, 'now').mockReturnValue(model.nowMs);
}

/** All that was handed to the bridge before this call has arrived there when it answers. */
async function catchUp(nowMs: number): Promise<void> {
  const link = env.BROKER_LINK.getByName('broker-main');
  await link.publish({ topic: 'barrier', payload: '{}', expiresAtMs: nowMs + 4_000 });
}

const framesTo = ({ device }: Real) => (bridge.waitingFor(device, propertySet) as { id: string }[]).map(({ id }) => id);

/** Takes what was published by a step: only kept commands that nothing has settled may come again. */
async function takeFrames(model: Model, real: Real, mayBe: Known[]): Promise<string[]> {
  await catchUp(model.nowMs);
  const ids = framesTo(real);
  for (const id of ids) {
    await bridge.nextFor(real.device, propertySet);
    const one = mayBe.find((known) => known.id === id);
    expect(one, 'published what must not be').toBeDefined();
    if (one !== undefined) one.wasOnline = model.isOnline;
  }
  return ids;
}

async function comeBack(model: Model, real: Real): Promise<void> {
  const due = model.hasBroker ? model.known.filter((one) => isPending(model, one)) : [];
  model.isOnline = true;
  const ids = await takeFrames(model, real, due);
  for (const { id } of due) expect(ids, 'published again when the device is back').toContain(id);
}

async function check(model: Model, real: Real): Promise<void> {
  const readStates = async () => {
    const outcome = await real.session.listCommands(1, { page: 1, size: 100 });
    if (!outcome.ok) throw new RefusedError(outcome.refusal);
    return Object.fromEntries(outcome.value.list.map(({ commandId, state }) => [commandId, state]));
  };
  const expected = Object.fromEntries(model.known.map((one) => [one.id, expectedState(model, one)]));
  // The broker's word on what was published by itself comes a moment later.
  await expect.poll(readStates, { interval: 5, timeout: 2_000 }).toEqual(expected);
}

async function say(real: Real, action: TopicAction, payload: object, nowMs: number): Promise<void> {
  real.seq += 1;
  const message = { seq: real.seq, action, payload: JSON.stringify(payload), isDup: false, isRetained: false };
  await ingest(real.session, real.device.productKey, 'spool', [{ ...message, receivedAtMs: nowMs }]);
}

class Control implements Step {
  readonly position: string | undefined;
  readonly ttlSeconds: number | undefined;
  constructor(position: string | undefined, ttlSeconds: number | undefined) {
    this.position = position;
    this.ttlSeconds = position === undefined ? undefined : ttlSeconds;
  }
  check = () => true;
  async run(model: Model, real: Real): Promise<void> {
    tick(model);
    const { position, ttlSeconds } = this;
    const params = position === undefined ? { action: 'trigger' } : { action: 'toggle', position };
    const request = { params, ttlSeconds, waitSeconds: undefined, idempotencyKey: undefined };
    const before = await real.session.listCommands(1, { page: 1, size: 1 });
    const outcome = await real.session.command(1, request);
    expect(outcome.ok).toBe(model.hasBroker);
    const list = await real.session.listCommands(1, { page: 1, size: 1 });
    if (!list.ok || !before.ok) throw new Error('not listed');
    const id = list.value.list[0]!.commandId;
    expect(id).not.toBe(before.value.list[0]?.commandId);
    if (model.hasBroker) for (const one of model.known) if (isPending(model, one)) one.isCancelled = true;
    const lifeMs = (ttlSeconds ?? 10) * 1000;
    const one: Known = {
      id,
      position,
      keptUntilMs: ttlSeconds === undefined ? undefined : model.nowMs + lifeMs,
      expiresAtMs: model.nowMs + lifeMs,
      isPublished: model.hasBroker,
      wasOnline: model.isOnline,
      code: undefined,
      isConfirmed: false,
      isCancelled: false,
    };
    model.known.push(one);
    expect(await takeFrames(model, real, [one])).toEqual(model.hasBroker ? [id] : []);
    await check(model, real);
  }
  toString = () =>
    `control ${this.position ?? 'trigger'}${this.ttlSeconds === undefined ? '' : ` ttl ${this.ttlSeconds}`}`;
}

class Reply implements Step {
  readonly back: number;
  readonly code: number;
  constructor(back: number, code: number) {
    this.back = back;
    this.code = code;
  }
  check = (model: Readonly<Model>) => model.isOnline && model.known.length > this.back;
  async run(model: Model, real: Real): Promise<void> {
    tick(model);
    const one = model.known.at(-1 - this.back)!;
    await say(
      real,
      propertyPost,
      { method: 'thing.service.property.set_reply', id: one.id, code: this.code },
      model.nowMs,
    );
    one.code ??= this.code;
    model.heardAtMs = model.nowMs;
    await takeFrames(model, real, []);
    await check(model, real);
  }
  toString = () => `reply ${this.code} to the last but ${this.back}`;
}

class Report implements Step {
  readonly position: string;
  constructor(position: string) {
    this.position = position;
  }
  check = () => true;
  async run(model: Model, real: Real): Promise<void> {
    tick(model);
    const newest = model.known.findLast((one) => one.isPublished && one.position !== undefined && isOpen(one));
    if (newest?.position === this.position) {
      const isUnderWay = model.nowMs < newest.expiresAtMs && !(newest.keptUntilMs !== undefined && !newest.wasOnline);
      const isProof = newest.code !== undefined || (isUnderWay && model.position !== this.position);
      if (isProof) newest.isConfirmed = true;
    }
    model.position = this.position;
    model.heardAtMs = model.nowMs;
    await say(real, propertyPost, { params: { position: this.position } }, model.nowMs);
    if (model.isOnline) await takeFrames(model, real, []);
    else await comeBack(model, real);
    await check(model, real);
  }
  toString = () => `report ${this.position}`;
}

/** What a report can still confirm. */
function isOpen(one: Known): boolean {
  return !one.isConfirmed && !one.isCancelled && (one.code === undefined || isSuccess(one.code));
}

class Connect implements Step {
  check = () => true;
  async run(model: Model, real: Real): Promise<void> {
    // A return within two seconds of another is the same one.
    tick(model, 2_100);
    await runDurableObjectAlarm(real.session);
    await takeFrames(
      model,
      real,
      model.known.filter((one) => isPending(model, one)),
    );
    tick(model);
    await real.session.reportConnection({ kind: 'connected', sessionStartedAtMs: model.nowMs });
    model.hasSession = true;
    await comeBack(model, real);
    await check(model, real);
  }
  toString = () => 'connect';
}

class Disconnect implements Step {
  check = (model: Readonly<Model>) => model.isOnline;
  async run(model: Model, real: Real): Promise<void> {
    tick(model, 6_000);
    const end = { sessionStartedAtMs: null, endedAtMs: model.nowMs, reason: 'tcp_closed' };
    await real.session.reportConnection({ kind: 'disconnected', ...end });
    model.isOnline = false;
    model.hasSession = false;
    await takeFrames(model, real, []);
    tick(model, 6_000);
    await check(model, real);
  }
  toString = () => 'disconnect';
}

class Sleep implements Step {
  check = () => true;
  async run(model: Model, real: Real): Promise<void> {
    // Only what is awake can go to sleep.
    await real.session.status(1);
    await evictDurableObject(real.session);
    await check(model, real);
  }
  toString = () => 'sleep';
}

class Wait implements Step {
  readonly seconds: number;
  constructor(seconds: number) {
    this.seconds = seconds;
  }
  check = ({ isOnline, hasSession, nowMs, heardAtMs }: Readonly<Model>) =>
    !isOnline || hasSession || nowMs + this.seconds * 1000 - heardAtMs < longestSilenceMs;
  async run(model: Model, real: Real): Promise<void> {
    tick(model, this.seconds * 1000);
    const mayBe = model.isOnline ? model.known.filter((one) => isPending(model, one)) : [];
    await runDurableObjectAlarm(real.session);
    await takeFrames(model, real, mayBe);
    await check(model, real);
  }
  toString = () => `wait ${this.seconds} s`;
}

class Broker implements Step {
  readonly isThere: boolean;
  constructor(isThere: boolean) {
    this.isThere = isThere;
  }
  check = () => true;
  async run(model: Model): Promise<void> {
    model.hasBroker = this.isThere;
    bridge.hasSubscribers = this.isThere ? null : 'refused';
    await Promise.resolve();
  }
  toString = () => (this.isThere ? 'broker comes' : 'broker goes');
}

class Cancel implements Step {
  readonly back: number;
  constructor(back: number) {
    this.back = back;
  }
  check = (model: Readonly<Model>) => model.known.length > this.back;
  async run(model: Model, real: Real): Promise<void> {
    tick(model);
    const one = model.known.at(-1 - this.back)!;
    const mayCancel = expectedState(model, one) === 'waiting';
    expect((await real.session.cancelCommand(1, one.id)).ok).toBe(mayCancel);
    if (mayCancel) one.isCancelled = true;
    await check(model, real);
  }
  toString = () => `cancel the last but ${this.back}`;
}

const position = fc.constantFrom('up', 'middle', 'down');
const ttl = fc.option(fc.constantFrom(30, 3_600), { nil: undefined });
const back = fc.nat(2);
const steps: fc.Arbitrary<Step>[] = [
  fc.tuple(fc.option(position, { nil: undefined, freq: 8 }), ttl).map((given) => new Control(...given)),
  fc.tuple(position, fc.constantFrom(60, 3_600)).map((given) => new Control(...given)),
  fc.tuple(back, fc.constantFrom(200, 0, 500)).map((given) => new Reply(...given)),
  position.map((word) => new Report(word)),
  fc.constant(new Connect()),
  fc.constant(new Disconnect()),
  fc.constant(new Sleep()),
  fc.constantFrom(1, 3, 12, 40).map((seconds) => new Wait(seconds)),
  fc.constantFrom(true, true, false).map((isThere) => new Broker(isThere)),
  back.map((given) => new Cancel(given)),
];

it('every command lives as the model says', { timeout: 120_000 }, async () => {
  // Ahead of the real clock, so that no alarm rings by itself.
  const startMs = Date.now() + 24 * 3_600_000;
  await fc.assert(
    fc.asyncProperty(fc.commands(steps, { maxCommands: 24, size: '+1' }), async (commands) => {
      vi.spyOn(Date, 'now').mockReturnValue(startMs);
      bridge.hasSubscribers = null;
      const device = await provisionDevice();
      const setup = (): { model: Model; real: Real } => ({
        model: {
          nowMs: startMs,
          isOnline: false,
          hasSession: false,
          heardAtMs: startMs,
          hasBroker: true,
          position: undefined,
          known: [],
        },
        real: { device, session: sessionOf(device.deviceId), seq: 0 },
      });
      await fc.asyncModelRun(setup, commands);
    }),
    { numRuns: 40, seed: fuzzSeed },
  );
});
