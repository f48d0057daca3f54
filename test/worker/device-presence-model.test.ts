// Presence as a model: the real object, asleep or awake between any two events, against a few lines that know what the
// device does. What is delayed, lost or doubled on the way is test/unit/presence.test.ts.
import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { topicActions, type TopicAction } from '../../src/protocol/mqtt.ts';
import { fuzzSeed } from '../rig/fuzzing.ts';
import { TestBridge } from '../rig/workerd/bridge.ts';
import { ingest, provisionDevice, sessionOf, type TestDevice } from '../rig/workerd/provision.ts';

const { propertyPost, status } = topicActions;

type Word = 'online' | 'offline';
type Model = {
  nowMs: number;
  sessionStartedAtMs: number | undefined;
  endedSessions: number[];
  isOnline: boolean;
  isDisabled: boolean;
  lastLifeAtMs: number;
  changes: number;
  /** What subscribers of the status topic heard last, from the device or from the service. */
  heard: Word | undefined;
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

function tick(model: Model, seconds: number): void {
  model.nowMs += seconds * 1000;
  vi.spyOn(Date, 'now').mockReturnValue(model.nowMs);
}

function become(model: Model, isOnline: boolean): void {
  if (model.isOnline !== isOnline) model.changes += 1;
  model.isOnline = isOnline;
}

/** A device that no session vouches for is gone after two minutes of silence, once somebody looks. */
function endSilent(model: Model): void {
  const isWatched = model.isOnline && model.sessionStartedAtMs === undefined;
  if (isWatched && model.nowMs - model.lastLifeAtMs >= 120_000) become(model, false);
}

async function check(model: Model, real: Real): Promise<void> {
  const link = env.BROKER_LINK.getByName('broker-main');
  await link.publish({ topic: 'barrier', payload: '{}', expiresAtMs: model.nowMs + 4_000 });
  while (bridge.waitingFor(real.device, status).length > 0) {
    model.heard = ((await bridge.nextFor(real.device, status)).body as { status: Word }).status;
  }
  const [view, events] = [await real.session.status(1), await real.session.events(1, { page: 1, size: 100 })];
  if (!view.ok || !events.ok) throw new Error('not answered');
  const isVisible = model.isOnline && !model.isDisabled;
  expect(view.value.online).toBe(isVisible);
  expect(view.value.status).toBe(model.isDisabled ? 'disabled' : model.isOnline ? 'online' : 'offline');
  expect(events.value.total).toBe(model.changes);
  if (model.changes > 0) expect(events.value.list[0]?.status).toBe(model.isOnline ? 'online' : 'offline');
  expect(model.heard ?? 'offline').toBe(isVisible ? 'online' : 'offline');
}

async function say(model: Model, real: Real, action: TopicAction, payload: object): Promise<boolean> {
  real.seq += 1;
  const message = { seq: real.seq, action, payload: JSON.stringify(payload), isDup: false, isRetained: false };
  const [result] = await ingest(real.session, real.device.productKey, 'spool', [
    { ...message, receivedAtMs: model.nowMs },
  ]);
  return result?.result === 'accepted';
}

/** A step takes six seconds, so that nothing of one session can be taken for the rest of another. */
function step(name: string, run: (model: Model, real: Real) => Promise<void>, seconds = 6): Step {
  return {
    check: () => true,
    run: async (model, real) => {
      tick(model, seconds);
      await run(model, real);
      await check(model, real);
    },
    toString: () => name,
  };
}

const connect = step('connect', async (model, { session }) => {
  if (model.sessionStartedAtMs !== undefined) model.endedSessions.push(model.sessionStartedAtMs);
  await session.reportConnection({ kind: 'connected', sessionStartedAtMs: model.nowMs });
  model.sessionStartedAtMs = model.nowMs;
  become(model, true);
});

const disconnect = step('disconnect', async (model, { session }) => {
  const startedAtMs = model.sessionStartedAtMs;
  if (startedAtMs === undefined) return;
  const end = { endedAtMs: model.nowMs, reason: 'tcp_closed' };
  await session.reportConnection({ kind: 'disconnected', sessionStartedAtMs: startedAtMs, ...end });
  model.endedSessions.push(startedAtMs);
  model.sessionStartedAtMs = undefined;
  become(model, false);
});

const repeatOldEvents = step('old events again', async (model, { session }) => {
  for (const sessionStartedAtMs of model.endedSessions) {
    await session.reportConnection({ kind: 'connected', sessionStartedAtMs });
    const end = { endedAtMs: model.nowMs, reason: 'keepalive_timeout' };
    await session.reportConnection({ kind: 'disconnected', sessionStartedAtMs, ...end });
  }
});

const report = step('report', async (model, real) => {
  if (!(await say(model, real, propertyPost, { params: { angle: 1 } }))) return;
  model.lastLifeAtMs = model.nowMs;
  become(model, true);
});

const announce = (word: Word) =>
  step(`announce ${word}`, async (model, real) => {
    if (!(await say(model, real, status, { status: word, time: model.nowMs * 10 }))) return;
    model.heard = word;
    if (word === 'online') model.lastLifeAtMs = model.nowMs;
    become(model, word === 'online');
  });

const administer = (isDisabled: boolean) =>
  step(isDisabled ? 'disable' : 'enable', async (model, { session }) => {
    await session.administer(1, { isDisabled });
    model.isDisabled = isDisabled;
    endSilent(model);
  });

const sleep = step('sleep', async (_, { session }) => {
  await session.status(1);
  await evictDurableObject(session);
});

const wait = (seconds: number) =>
  step(
    `wait ${seconds} s`,
    async (model, { session }) => {
      await runDurableObjectAlarm(session);
      endSilent(model);
    },
    seconds,
  );

const steps = [
  connect,
  connect,
  disconnect,
  repeatOldEvents,
  report,
  announce('online'),
  announce('offline'),
  administer(true),
  administer(false),
  administer(false),
  sleep,
  wait(20),
  wait(130),
].map((one) => fc.constant(one));

it('presence is as the model says', { timeout: 120_000 }, async () => {
  // Ahead of the real clock, so that no alarm rings by itself.
  const startMs = Date.now() + 24 * 3_600_000;
  await fc.assert(
    fc.asyncProperty(fc.commands(steps, { maxCommands: 24, size: '+1' }), async (commands) => {
      vi.spyOn(Date, 'now').mockReturnValue(startMs);
      const device = await provisionDevice();
      const setup = (): { model: Model; real: Real } => ({
        model: {
          nowMs: startMs,
          sessionStartedAtMs: undefined,
          endedSessions: [],
          isOnline: false,
          isDisabled: false,
          lastLifeAtMs: 0,
          changes: 0,
          heard: undefined,
        },
        real: { device, session: sessionOf(device.deviceId), seq: 0 },
      });
      await fc.asyncModelRun(setup, commands);
    }),
    { numRuns: 40, seed: fuzzSeed },
  );
});
