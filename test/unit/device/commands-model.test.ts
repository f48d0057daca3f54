// The life of commands as a model: whatever happens in whatever order, asleep or awake in between, the core says of each
// command what a few lines of bookkeeping say, and publishes what they allow and nothing else.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { CoreDevice } from './core-device.ts';
import { compareWithModel, tick, type Step } from './core-model.ts';

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

/** Takes what was published by a step: only queued commands that nothing has ended may come again. */
function takeFrames(model: Model, real: CoreDevice, mayBe: Known[]): string[] {
  const commands = real.published.splice(0).filter(({ topic }) => topic.endsWith(`/${propertySet}`));
  const ids = commands.map(({ payload }) => (JSON.parse(payload) as { id: string }).id);
  for (const id of ids) {
    const one = mayBe.find((known) => known.id === id);
    expect(one, 'published what must not be').toBeDefined();
    if (one !== undefined) one.wasOnline = model.isOnline;
  }
  return ids;
}

function comeBack(model: Model, real: CoreDevice): void {
  const due = model.hasBroker ? model.known.filter((one) => isPending(model, one)) : [];
  model.isOnline = true;
  const ids = takeFrames(model, real, due);
  for (const { id } of due) expect(ids, 'published again when the device is back').toContain(id);
}

function check(model: Model, real: CoreDevice): void {
  const states = Object.fromEntries(real.commands().map(({ commandId, state }) => [commandId, state]));
  const expected = Object.fromEntries(model.known.map((one) => [one.id, expectedState(model, one)]));
  expect(states).toEqual(expected);
}

class Control implements Step<Model> {
  readonly position: string | undefined;
  readonly ttlSeconds: number | undefined;
  constructor(position: string | undefined, ttlSeconds: number | undefined) {
    this.position = position;
    this.ttlSeconds = position === undefined ? undefined : ttlSeconds;
  }
  check = () => true;
  run(model: Model, real: CoreDevice): void {
    tick(model, real);
    const { position, ttlSeconds } = this;
    const params = position === undefined ? { action: 'trigger' } : { action: 'toggle', position };
    const { commandId: id, outcome } = real.request({ params, ttlSeconds });
    expect(outcome.ok).toBe(true);
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
    expect(takeFrames(model, real, [one])).toEqual(model.hasBroker ? [id] : []);
    check(model, real);
  }
  toString = () =>
    `control ${this.position ?? 'trigger'}${this.ttlSeconds === undefined ? '' : ` ttl ${this.ttlSeconds}`}`;
}

class Reply implements Step<Model> {
  readonly back: number;
  readonly code: number;
  constructor(back: number, code: number) {
    this.back = back;
    this.code = code;
  }
  check = (model: Readonly<Model>) => model.isOnline && model.known.length > this.back;
  run(model: Model, real: CoreDevice): void {
    tick(model, real);
    const one = model.known.at(-1 - this.back)!;
    real.receive(propertyPost, { method: 'thing.service.property.set_reply', id: one.id, code: this.code });
    one.code ??= this.code;
    model.heardAtMs = model.nowMs;
    takeFrames(model, real, []);
    check(model, real);
  }
  toString = () => `reply ${this.code} to the last but ${this.back}`;
}

class Report implements Step<Model> {
  readonly position: string;
  constructor(position: string) {
    this.position = position;
  }
  check = () => true;
  run(model: Model, real: CoreDevice): void {
    tick(model, real);
    const newest = model.known.findLast((one) => one.isPublished && one.position !== undefined && isOpen(one));
    if (newest?.position === this.position) {
      const isUnderWay = model.nowMs < newest.expiresAtMs && !(newest.keptUntilMs !== undefined && !newest.wasOnline);
      const isProof = newest.code !== undefined || (isUnderWay && model.position !== this.position);
      if (isProof) newest.isConfirmed = true;
    }
    model.position = this.position;
    model.heardAtMs = model.nowMs;
    real.receive(propertyPost, { params: { position: this.position } });
    if (model.isOnline) takeFrames(model, real, []);
    else comeBack(model, real);
    check(model, real);
  }
  toString = () => `report ${this.position}`;
}

/** What a report can still confirm. */
function isOpen(one: Known): boolean {
  return !one.isConfirmed && !one.isCancelled && (one.code === undefined || isSuccess(one.code));
}

class Connect implements Step<Model> {
  check = () => true;
  run(model: Model, real: CoreDevice): void {
    // A return within two seconds of another is the same one.
    tick(model, real, 2_100);
    real.fireAlarm();
    takeFrames(
      model,
      real,
      model.known.filter((one) => isPending(model, one)),
    );
    tick(model, real);
    real.run({ kind: 'connection_reported', report: { kind: 'connected', sessionStartedAtMs: model.nowMs } });
    model.hasSession = true;
    comeBack(model, real);
    check(model, real);
  }
  toString = () => 'connect';
}

class Disconnect implements Step<Model> {
  check = (model: Readonly<Model>) => model.isOnline;
  run(model: Model, real: CoreDevice): void {
    tick(model, real, 6_000);
    const end = { sessionStartedAtMs: null, endedAtMs: model.nowMs, reason: 'tcp_closed' };
    real.run({ kind: 'connection_reported', report: { kind: 'disconnected', ...end } });
    model.isOnline = false;
    model.hasSession = false;
    takeFrames(model, real, []);
    tick(model, real, 6_000);
    check(model, real);
  }
  toString = () => 'disconnect';
}

class Sleep implements Step<Model> {
  check = () => true;
  run(model: Model, real: CoreDevice): void {
    real.sleep();
    check(model, real);
  }
  toString = () => 'sleep';
}

class Wait implements Step<Model> {
  readonly seconds: number;
  constructor(seconds: number) {
    this.seconds = seconds;
  }
  check = ({ isOnline, hasSession, nowMs, heardAtMs }: Readonly<Model>) =>
    !isOnline || hasSession || nowMs + this.seconds * 1000 - heardAtMs < longestSilenceMs;
  run(model: Model, real: CoreDevice): void {
    tick(model, real, this.seconds * 1000);
    const mayBe = model.isOnline ? model.known.filter((one) => isPending(model, one)) : [];
    real.fireAlarm();
    takeFrames(model, real, mayBe);
    check(model, real);
  }
  toString = () => `wait ${this.seconds} s`;
}

class Broker implements Step<Model> {
  readonly isThere: boolean;
  constructor(isThere: boolean) {
    this.isThere = isThere;
  }
  check = () => true;
  run(model: Model, real: CoreDevice): void {
    model.hasBroker = this.isThere;
    real.hasBroker = this.isThere;
  }
  toString = () => (this.isThere ? 'broker comes' : 'broker goes');
}

class Cancel implements Step<Model> {
  readonly back: number;
  constructor(back: number) {
    this.back = back;
  }
  check = (model: Readonly<Model>) => model.known.length > this.back;
  run(model: Model, real: CoreDevice): void {
    tick(model, real);
    const one = model.known.at(-1 - this.back)!;
    const mayCancel = expectedState(model, one) === 'waiting';
    expect(real.run({ kind: 'cancel_requested', actor: inPerson(1), commandId: one.id }).ok).toBe(mayCancel);
    if (mayCancel) one.isCancelled = true;
    check(model, real);
  }
  toString = () => `cancel the last but ${this.back}`;
}

const position = fc.constantFrom('up', 'middle', 'down');
const ttl = fc.option(fc.constantFrom(30, 3_600), { nil: undefined });
const back = fc.nat(2);
const steps: fc.Arbitrary<Step<Model>>[] = [
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

it('every command lives as the model says', () => {
  compareWithModel<Model>(steps, (nowMs) => ({
    nowMs,
    isOnline: false,
    hasSession: false,
    heardAtMs: nowMs,
    hasBroker: true,
    position: undefined,
    known: [],
  }));
});
