// The life of one command: which word is honest after what happened.
import { describe, expect, it } from 'vitest';
import {
  acceptCommand,
  describeCommand,
  isIdempotent,
  isOpen,
  isPending,
  markCancelled,
  markPublished,
  markReplied,
  markReturned,
  markShown,
  markUnpublished,
  type Command,
} from '../../../src/domain/device/commands/command-life.ts';
import type { ControlParams } from '../../../src/domain/control-command.ts';
import type { Json } from '../../../src/domain/json.ts';

const start = 1_763_000_000_000;
const up: ControlParams = { action: 'toggle', position: 'up' };

const accept = (params = up, ttlSeconds?: number) =>
  acceptCommand({ commandId: 'c1', number: 1, params, givenBy: { userId: 1, withKey: false } }, ttlSeconds, start);
const publish = (command: Command, { online = true, nobody = false, at = 5 } = {}) =>
  markPublished(
    command,
    { startedAtMs: start + at - 3, acknowledgedAtMs: start + at, hasReachedNobody: nobody },
    online,
    start + at,
  );
const shown = (command: Command, values: Record<string, Json>, changed = values, at = 100) =>
  markShown(
    command,
    { reported: new Map(Object.entries(values)), changed: new Map(Object.entries(changed)) },
    start + at,
  );
const stateOf = (command: Command, { online = true, at = 200 } = {}) =>
  describeCommand(command, online, start + at).state;

it.each<[ControlParams, boolean]>([
  [{ action: 'toggle', position: 'up' }, true],
  [{ angle: 0 }, true],
  [{ action: 'toggle' }, false],
  [{ action: 'pulse', duration: 5 }, false],
  [{ action: 'trigger' }, false],
  [{ switch: false }, false],
  [{ switch: true, angle: 90 }, false],
])('the command %j is idempotent: %s', (params, expected) => {
  expect(isIdempotent(params)).toBe(expected);
});

describe('a command', () => {
  it.each([
    [null, 'acknowledged'],
    [0, 'acknowledged'],
    [200, 'acknowledged'],
    [299, 'acknowledged'],
    [1, 'failed'],
    [400, 'failed'],
    [-1, 'failed'],
  ])('with the reply code %s is %s', (code, expected) => {
    expect(stateOf(markReplied(publish(accept()), code, start + 9))).toBe(expected);
  });

  it('takes the first reply for the answer', () => {
    const command = markReplied(markReplied(publish(accept()), 500, start + 9), 200, start + 10);
    expect(command).toMatchObject({ replyCode: 500, deviceAcknowledgedAtMs: start + 9 });
  });

  it('expires after ten seconds without a reply, and is acknowledged by one that comes later', () => {
    const command = publish(accept());
    expect(stateOf(command, { at: 9_999 })).toBe('sent');
    expect(stateOf(command, { at: 10_000 })).toBe('expired');
    expect(stateOf(markReplied(command, 200, start + 15_000), { at: 20_000 })).toBe('acknowledged');
  });

  it('is undelivered where no broker took it, or where the broker knew of no subscriber', () => {
    const untaken = markUnpublished(accept(), true, start + 4_500);
    expect(describeCommand(untaken, true, start + 5_000)).toEqual({
      state: 'undelivered',
      reason: 'broker_unavailable',
    });
    const unheard = publish(accept(), { nobody: true });
    expect(describeCommand(unheard, true, start + 20)).toEqual({ state: 'undelivered', reason: 'no_subscriber' });
    expect(stateOf(markReplied(unheard, 200, start + 30))).toBe('acknowledged');
  });
});

it('a command that a lost bridge may have published is not called undelivered until the device replies', () => {
  const command = markUnpublished(accept(), false, start + 900);
  expect(describeCommand(command, true, start + 1_000)).toEqual({ state: 'expired', reason: 'outcome_unknown' });
  expect(stateOf(markReplied(command, 200, start + 2_000))).toBe('acknowledged');
});

describe('a report', () => {
  it('that shows what was true before proves nothing without a reply', () => {
    expect(stateOf(shown(publish(accept()), { position: 'up' }, {}))).toBe('sent');
    expect(stateOf(shown(publish(accept()), { position: 'up' }))).toBe('confirmed');
  });

  it('of another value, of another property or after the time proves nothing', () => {
    expect(stateOf(shown(publish(accept()), { position: 'down' }))).toBe('sent');
    expect(stateOf(shown(publish(accept()), { angle: 180 }))).toBe('sent');
    expect(stateOf(shown(publish(accept()), { position: 'up' }, { position: 'up' }, 10_001), { at: 20_000 })).toBe(
      'expired',
    );
  });

  it('proves nothing where the device said that it failed, or where nobody has published the command', () => {
    expect(stateOf(shown(markReplied(publish(accept()), 500, start + 9), { position: 'up' }))).toBe('failed');
    expect(stateOf(shown(accept(), { position: 'up' }))).toBe('accepted');
  });

  it('confirms an angle by the angle, and never a switch, a pulse or a trigger', () => {
    expect(stateOf(shown(markReplied(publish(accept({ angle: 90 })), 200, start), { angle: 90 }))).toBe('confirmed');
    for (const params of [{ switch: true }, { action: 'pulse' }, { action: 'trigger' }, { action: 'toggle' }]) {
      const command = markReplied(publish(accept(params)), 200, start + 9);
      expect(stateOf(shown(command, { position: 'up', switch: true, angle: 1 }))).toBe('acknowledged');
    }
  });
});

describe('a kept command', () => {
  it('waits for a device that is away, and for one that nobody subscribed for', () => {
    expect(stateOf(publish(accept(up, 60), { online: false }), { online: false })).toBe('waiting');
    expect(stateOf(publish(accept(up, 60), { nobody: true }))).toBe('waiting');
    expect(stateOf(publish(accept(up, 60)), { online: false }), 'it left without a reply').toBe('waiting');
    expect(stateOf(publish(accept(up, 60)))).toBe('sent');
  });

  it('is due when the device returns, once more two seconds later, and then rests until the next return', () => {
    let command = markReturned(publish(accept(up, 60), { online: false }), start + 1_000);
    expect(command.attemptAtMs).toBe(start + 1_000);
    command = publish(command, { at: 1_010 });
    expect(command.attemptAtMs).toBe(start + 3_010);
    expect(markReturned(command, start + 1_500), 'still the same return').toBe(command);
    command = publish(command, { at: 3_020 });
    expect(command.attemptAtMs).toBeNull();
    expect(markReturned(command, start + 9_000).attemptAtMs).toBe(start + 9_000);
  });

  it('that found nobody subscribed although the device is there is tried once more two seconds later', () => {
    const command = publish(accept(up, 60), { nobody: true });
    expect(command).toMatchObject({ attemptAtMs: start + 2_005, isAwaitingDevice: true });
    expect(publish(command, { nobody: true, at: 2_010 }).attemptAtMs).toBeNull();
    expect(publish(accept(up, 60), { nobody: true, online: false }).attemptAtMs).toBeNull();
    expect(publish(accept(up), { nobody: true }).attemptAtMs, 'not kept').toBeNull();
  });

  it('that found no broker is due at the next return, however soon that is', () => {
    let command = markReturned(publish(accept(up, 60), { online: false }), start + 1_000);
    command = markUnpublished(command, true, start + 5_500);
    expect(command.attemptAtMs).toBe(start + 15_500);
    expect(markReturned(command, start + 6_000).attemptAtMs).toBe(start + 6_000);
  });

  it('is settled by a reply, by a report that shows it, by cancelling and by time', () => {
    const command = markReturned(publish(accept(up, 60)), start + 1_000);
    expect(isPending(command, start + 59_999)).toBe(true);
    expect(isPending(command, start + 60_000)).toBe(false);
    for (const settled of [
      markReplied(command, 500, start + 2_000),
      shown(command, { position: 'up' }),
      markCancelled(command, 'requested'),
    ]) {
      expect(isPending(settled, start + 3_000)).toBe(false);
      expect(settled.attemptAtMs).toBeNull();
      expect(markReturned(settled, start + 4_000)).toBe(settled);
    }
    expect(stateOf(command, { at: 60_000 })).toBe('expired');
    expect(describeCommand(markCancelled(command, 'replaced'), true, start)).toMatchObject({
      state: 'cancelled',
      reason: 'replaced',
    });
  });

  it('is not proven by a report of a device that never got it', () => {
    const command = publish(accept(up, 60), { online: false });
    expect(stateOf(shown(command, { position: 'up' }))).toBe('waiting');
  });

  it('that no broker took is kept no longer; one that was published before is tried again', () => {
    expect(markUnpublished(accept(up, 60), true, start + 4_500)).toMatchObject({ isQueued: false });
    const again = markUnpublished(markReturned(publish(accept(up, 60)), start), true, start + 4_500);
    expect(again).toMatchObject({ isQueued: true, attemptAtMs: start + 14_500, undeliveredBecause: null });
  });
});

it('an object that wakes has those commands at hand that something can still be learned of or done for', () => {
  expect(isOpen(accept(), start)).toBe(true);
  expect(isOpen(shown(publish(accept()), { position: 'up' }), start)).toBe(false);
  expect(isOpen(accept({ action: 'trigger' }), start)).toBe(false);
  expect(isOpen(markUnpublished(accept(), true, start), start)).toBe(false);
  expect(isOpen(markReplied(publish(accept(up, 60)), 200, start), start), 'not yet confirmed').toBe(true);
});
