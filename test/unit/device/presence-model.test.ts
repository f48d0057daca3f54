// Presence as a model: the core, asleep or awake between any two events, against a few lines that know what the device
// does. What is delayed, lost or doubled on the way is device-connection-histories.test.ts.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { topicActions, type TopicAction } from '../../../src/protocol/mqtt.ts';
import { CoreDevice } from './core-device.ts';
import { compareWithModel, tick, type Step } from './core-model.ts';

const { propertyPost, status } = topicActions;

type Word = 'online' | 'offline';
type Model = {
  nowMs: number;
  sessionStartedAtMs: number | undefined;
  endedSessions: number[];
  isOnline: boolean;
  isDisabled: boolean;
  lastLifeAtMs: number;
  /** The last moment at which anybody had heard of the device. */
  lastEvidenceAtMs: number;
  /** The broker has forgotten the session: until then the device has to show that it is there. */
  unconfirmedUntilMs: number | undefined;
  changes: number;
  /** What subscribers of the status topic heard last, from the device or from the service. */
  heard: Word | undefined;
};

function become(model: Model, isOnline: boolean): void {
  if (model.isOnline !== isOnline) model.changes += 1;
  model.isOnline = isOnline;
  model.unconfirmedUntilMs = undefined;
}

/** A device that no session vouches for is gone after two minutes of silence, any other after a day, once somebody looks. */
function endSilent(model: Model): void {
  if (model.unconfirmedUntilMs !== undefined && model.unconfirmedUntilMs <= model.nowMs) {
    if (model.sessionStartedAtMs !== undefined) model.endedSessions.push(model.sessionStartedAtMs);
    model.sessionStartedAtMs = undefined;
    become(model, false);
  }
  const allowedMs = model.sessionStartedAtMs === undefined ? 120_000 : 24 * 3_600_000;
  if (model.isOnline && model.nowMs - model.lastLifeAtMs >= allowedMs) become(model, false);
}

function check(model: Model, device: CoreDevice): void {
  for (const { topic, payload } of device.published.splice(0)) {
    if (topic.endsWith(`/${status}`)) model.heard = (JSON.parse(payload) as { status: Word }).status;
  }
  const [view, events] = [device.status(), device.events()];
  if (!events.ok) throw new Error('not answered');
  const isVisible = model.isOnline && !model.isDisabled;
  expect(view.online).toBe(isVisible);
  expect(view.status).toBe(model.isDisabled ? 'disabled' : model.isOnline ? 'online' : 'offline');
  expect(events.value.total).toBe(model.changes);
  if (model.changes > 0) expect(events.value.list[0]?.status).toBe(model.isOnline ? 'online' : 'offline');
  expect(model.heard ?? 'offline').toBe(isVisible ? 'online' : 'offline');
  expect(Date.parse(view.lastOnlineAt ?? new Date(0).toISOString())).toBeLessThanOrEqual(model.lastEvidenceAtMs);
}

function say(device: CoreDevice, action: TopicAction, payload: object): boolean {
  return device.receive(action, payload).result === 'accepted';
}

/** A step takes six seconds, so that nothing of one session can be taken for the rest of another. */
function step(name: string, run: (model: Model, device: CoreDevice) => void, seconds = 6): Step<Model> {
  return {
    check: () => true,
    run: (model, device) => {
      tick(model, device, seconds * 1_000);
      run(model, device);
      check(model, device);
    },
    toString: () => name,
  };
}

const connect = step('connect', (model, device) => {
  if (model.sessionStartedAtMs !== undefined) model.endedSessions.push(model.sessionStartedAtMs);
  device.run({ kind: 'connection_reported', report: { kind: 'connected', sessionStartedAtMs: model.nowMs } });
  model.sessionStartedAtMs = model.nowMs;
  model.lastLifeAtMs = model.nowMs;
  model.lastEvidenceAtMs = model.nowMs;
  become(model, true);
});

const forget = (confirmWithinMs: number) =>
  step('the broker forgets its sessions', (model, device) => {
    const isDoubtful = model.isOnline && model.sessionStartedAtMs !== undefined;
    device.run({ kind: 'connection_reported', report: { kind: 'doubted', beforeMs: model.nowMs, confirmWithinMs } });
    if (!isDoubtful) return;
    model.unconfirmedUntilMs = Math.min(model.unconfirmedUntilMs ?? Infinity, model.nowMs + confirmWithinMs);
    if (confirmWithinMs === 0) endSilent(model);
  });

const disconnect = step('disconnect', (model, device) => {
  const startedAtMs = model.sessionStartedAtMs;
  if (startedAtMs === undefined) return;
  const end = { endedAtMs: model.nowMs, reason: 'tcp_closed' };
  device.run({
    kind: 'connection_reported',
    report: { kind: 'disconnected', sessionStartedAtMs: startedAtMs, ...end },
  });
  model.endedSessions.push(startedAtMs);
  model.sessionStartedAtMs = undefined;
  model.lastEvidenceAtMs = model.nowMs;
  become(model, false);
});

const repeatOldEvents = step('old events again', (model, device) => {
  for (const sessionStartedAtMs of model.endedSessions) {
    device.run({ kind: 'connection_reported', report: { kind: 'connected', sessionStartedAtMs } });
    const end = { endedAtMs: model.nowMs, reason: 'keepalive_timeout' };
    device.run({ kind: 'connection_reported', report: { kind: 'disconnected', sessionStartedAtMs, ...end } });
  }
});

const report = step('report', (model, device) => {
  if (!say(device, propertyPost, { params: { angle: 1 } })) return;
  model.lastLifeAtMs = model.nowMs;
  model.lastEvidenceAtMs = model.nowMs;
  become(model, true);
});

const announce = (word: Word) =>
  step(`announce ${word}`, (model, device) => {
    if (!say(device, status, { status: word, time: model.nowMs * 10 })) return;
    model.heard = word;
    model.lastEvidenceAtMs = model.nowMs;
    if (word === 'online') model.lastLifeAtMs = model.nowMs;
    become(model, word === 'online');
  });

const administer = (isDisabled: boolean) =>
  step(isDisabled ? 'disable' : 'enable', (model, device) => {
    device.run({ kind: 'administered', actor: inPerson(1), change: { isDisabled } });
    model.isDisabled = isDisabled;
    endSilent(model);
  });

const sleep = step('sleep', (_, device) => {
  device.sleep();
});

const wait = (seconds: number) =>
  step(
    `wait ${seconds} s`,
    (model, device) => {
      device.fireAlarm();
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
  wait(25 * 3600),
  forget(60_000),
  forget(0),
].map((one) => fc.constant(one));

it('presence is as the model says', () => {
  compareWithModel<Model>(steps, (nowMs) => ({
    nowMs,
    sessionStartedAtMs: undefined,
    endedSessions: [],
    isOnline: false,
    isDisabled: false,
    lastLifeAtMs: 0,
    lastEvidenceAtMs: 0,
    unconfirmedUntilMs: undefined,
    changes: 0,
    heard: undefined,
  }));
});
