// What two devices decide when one is the witness of the other: by name. The whole with time and chance: witness-simulation.test.ts.
import { describe, expect, it } from 'vitest';
import { inPerson } from '../../../src/domain/access.ts';
import { secondMs } from '../../../src/domain/time.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import type { WitnessSettings } from '../../../src/protocol/http/witness.ts';
import { CoreDevice, onlineDevice, up } from '../device/core-device.ts';

const start = Date.UTC(2027, 5, 1);
const owner = inPerson(1);
const pulse = { action: 'pulse' } as const;
const power = { property: 'power', operator: '>', value: 20 } as const;
const settings = { expect: 'on', by: power, withinSeconds: 30, then: 'nothing' } as const;
const idOfPlug = 'dev_000p1ug0';

function withWitness(more: Partial<WitnessSettings> = {}): CoreDevice {
  const device = onlineDevice(start);
  set(device, { ...settings, ...more });
  device.wait(secondMs);
  return device;
}

/** Another device is its witness; `carry` brings what they ask and tell, unless it is lost. */
function withPlug(more: Partial<WitnessSettings> = {}) {
  const plug = onlineDevice(start, {}, idOfPlug);
  const device = withWitness({ by: { ...power, deviceId: idOfPlug }, ...more });
  plug.run({ kind: 'watcher_set', actor: owner, deviceId: device.deviceId, condition: power });
  const carry = () => {
    plug.nowMs = device.nowMs;
    for (const effect of device.effects.splice(0)) {
      if (effect.kind !== 'ask_witness') continue;
      const { untilMs, commandId } = effect;
      const answer = plug.run({ kind: 'reading_asked', deviceId: device.deviceId, untilMs });
      const reading = answer.ok ? answer.value : null;
      if (reading !== null) device.run({ kind: 'witness_read', deviceId: idOfPlug, reading });
      const problem = answer.ok ? null : 'forbidden';
      if (commandId !== null) device.run({ kind: 'witness_asked', commandId, problem });
    }
    for (const effect of plug.effects.splice(0))
      if (effect.kind === 'tell_watcher')
        device.run({ kind: 'witness_read', deviceId: idOfPlug, reading: effect.reading });
  };
  const at = (ms: number, value: unknown, time?: number) => {
    plug.nowMs = device.nowMs = ms;
    report(plug, { power: value }, time);
  };
  return { device, plug, carry, at };
}

const set = (device: CoreDevice, to: WitnessSettings | null) =>
  device.run({ kind: 'witness_set', actor: owner, settings: to, linkId: null });
const report = (device: CoreDevice, params: object, time?: number) =>
  device.receive(topicActions.propertyPost, { params, time });
const press = (device: CoreDevice, params: typeof pulse | typeof up = pulse, ttlSeconds?: number) =>
  device.request({ params, ttlSeconds }).commandId;
const last = (device: CoreDevice) => device.commands()[0]!;
const outcome = (device: CoreDevice) => last(device).witness?.reason ?? last(device).witness?.outcome;

describe('a property of the device', () => {
  it('counts from after the command was handed on until its time is over, and the last command alone', () => {
    const device = withWitness();
    report(device, { power: 30 });
    press(device);
    expect(outcome(device)).toBe('pending');
    report(device, { power: 30 });
    expect(outcome(device)).toBe('pending');
    device.wait(30 * secondMs);
    report(device, { power: 31 });
    expect(last(device).witness).toMatchObject({ outcome: 'witnessed', by: 'property', atMs: device.nowMs });
    const first = press(device);
    press(device);
    const find = device.commands().find(({ commandId }) => commandId === first);
    expect(find?.witness).toMatchObject({ outcome: 'not_witnessed', reason: 'replaced' });
    expect(device.effects).toContainEqual({ kind: 'notify_waiting', commandId: first });
    device.wait(31 * secondMs);
    report(device, { power: 30 });
    expect(outcome(device)).toBe('not_seen');
  });

  it('of another type is no reading', () => {
    const device = withWitness();
    for (const value of [null, 'unavailable', '', true, [30], { now: 30 }]) report(device, { power: value });
    expect(device.status().actual).toBeNull();
    report(device, { power: 20 });
    expect(device.status().actual).toMatchObject({ value: 'off', reading: 20 });
  });

  it('without a condition has to change, and not back after an older report that was held up', () => {
    const device = withWitness({ expect: 'pressed', by: { property: 'presses' } });
    report(device, { presses: 4 });
    expect(device.status().actual).toBeNull();
    device.wait(5 * secondMs);
    report(device, { presses: 6 });
    report(device, { presses: 5 }, device.nowMs - 2 * secondMs);
    device.sleep();
    press(device);
    device.wait(secondMs);
    report(device, { presses: 6 });
    expect(outcome(device)).toBe('pending');
    report(device, { presses: 7 });
    expect(outcome(device)).toBe('witnessed');
  });
});

describe('a command', () => {
  it('is not final before its witness is', () => {
    const device = withWitness();
    press(device);
    device.reply();
    expect(last(device)).toMatchObject({ state: 'acknowledged', final: false });
    device.wait(30 * secondMs);
    expect(last(device).final).toBe(false);
    device.wait(secondMs);
    expect(last(device)).toMatchObject({ final: true, witness: { reason: 'not_seen' } });
  });

  it('that certainly reached nobody is undelivered; one that may have is waited for', () => {
    const device = withWitness();
    device.hasBroker = false;
    press(device);
    expect(outcome(device)).toBe('undelivered');
    device.isBrokerSilent = true;
    const commandId = press(device);
    device.run({ kind: 'publication_ended', commandId, outcome: { ok: false, reason: 'unreachable' } });
    expect(last(device).reason).toBe('outcome_unknown');
    device.wait(secondMs);
    report(device, { power: 30 });
    expect(outcome(device)).toBe('witnessed');
  });

  it('that waits for its device begins its time when it is sent again, and keeps what was seen', () => {
    const device = withWitness();
    device.disconnect();
    press(device, up, 600);
    device.wait(300 * secondMs);
    expect(outcome(device)).toBe('pending');
    device.connect();
    device.wait(secondMs);
    report(device, { power: 30 });
    const { witness } = last(device);
    expect(witness?.outcome).toBe('witnessed');
    device.wait(2 * secondMs);
    expect(device.sent.length).toBeGreaterThan(2);
    expect(last(device).witness).toEqual(witness);
  });

  it('is sent again once if it names a target, by somebody who may, and not during a lease', () => {
    const retried = (prepare: (device: CoreDevice) => unknown) => {
      const device = withWitness({ then: 'retry_once' });
      prepare(device);
      device.wait(100 * secondMs);
      return device.commands().filter(({ retryOf }) => typeof retryOf === 'string').length;
    };
    expect(retried((device) => press(device, up))).toBe(1);
    expect(retried((device) => press(device))).toBe(0);
    const lease = { seconds: 3_600, then: { action: 'toggle', position: 'down' } } as const;
    expect(retried((device) => device.request({ params: up, ttlSeconds: undefined, lease }))).toBe(0);
    const byMember = (device: CoreDevice) => {
      device.isAuthorValid = true;
      const member = { userId: 2, email: 'b@example.com', role: 'operator', invitedBy: 1, address: null } as const;
      device.run({ kind: 'member_joined', ...member });
      device.request({ params: up, ttlSeconds: undefined }, inPerson(2));
    };
    expect(retried(byMember)).toBe(1);
    const leave = (device: CoreDevice) => {
      byMember(device);
      device.run({ kind: 'member_removed', actor: owner, userId: 2, email: 'b@example.com', address: null });
    };
    expect(retried(leave)).toBe(0);
  });

  it('is not judged by a witness that was set after it', () => {
    const device = withWitness();
    press(device);
    set(device, settings);
    expect(outcome(device)).toBe('replaced');
  });
});

describe('another device', () => {
  it('is believed for the time at which it measured, in any order, up to an hour back', () => {
    const { device, carry, at } = withPlug();
    at(start + 10_000, 1);
    press(device);
    carry();
    at(start + 13_000, 1, start + 13_000);
    at(start + 14_000, 30, start + 9_000);
    carry();
    expect(outcome(device)).toBe('pending');
    at(start + 15_000, 30, start + 12_000);
    carry();
    expect(last(device).witness).toMatchObject({ outcome: 'witnessed', atMs: start + 12_000 });
    expect(device.status().actual).toMatchObject({ value: 'off' });
  });

  it.each(['told', 'lost'])(
    'shows what was seen in time although it was %s, both objects slept and more came',
    (way) => {
      const { device, plug, carry, at } = withPlug();
      at(start + 10_000, 1);
      press(device);
      carry();
      at(start + 20_000, 30);
      if (way === 'lost') plug.effects.length = 0;
      carry();
      plug.sleep();
      device.sleep();
      plug.nowMs = start + 40_900;
      report(plug, { power: 35 });
      plug.effects.length = 0;
      device.wait(21_000);
      carry();
      expect(last(device).witness).toMatchObject({ outcome: 'witnessed', atMs: start + 20_000 });
    },
  );

  it('is asked three times, and may be unreachable or forbidden', () => {
    const { device } = withPlug();
    press(device);
    device.wait(60 * secondMs);
    expect(outcome(device)).toBe('pending');
    device.wait(secondMs);
    expect(outcome(device)).toBe('unreachable');
    const { device: other, plug, carry } = withPlug();
    plug.run({ kind: 'watcher_ended', deviceId: other.deviceId });
    press(other);
    other.wait(31 * secondMs);
    carry();
    expect(outcome(other)).toBe('forbidden');
  });

  it('keeps a new condition over sleep, and what it read by the old one does not count', () => {
    const { device, plug, carry, at } = withPlug();
    at(start + 10_000, 10);
    const condition = { ...power, value: 50 };
    plug.run({ kind: 'watcher_set', actor: owner, deviceId: device.deviceId, condition });
    plug.sleep();
    press(device);
    carry();
    at(start + 12_000, 60);
    carry();
    expect(outcome(device)).toBe('pending');
    set(device, { ...settings, by: { ...condition, deviceId: idOfPlug } });
    press(device);
    carry();
    at(start + 13_000, 60);
    carry();
    expect(outcome(device)).toBe('witnessed');
  });
});
