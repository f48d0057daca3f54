// The presence machine: each rule by name.
import { describe, expect, it } from 'vitest';
import {
  decidePresence,
  initialPresence,
  type PresenceEvent,
  type PresenceOutcome,
  type PresenceRules,
} from '../../../src/domain/device/presence/presence.ts';
import {
  announced,
  authenticated,
  connected,
  disconnected,
  doubted,
  due,
  hour,
  message,
  minute,
  reporting,
  second,
  silenceMs,
  silent,
  start,
} from './presence-events.ts';
import { presenceTimes } from '../../../src/domain/device/presence/presence-times.ts';

/** Events with the moment of their arrival, one after the other; the outcomes in the same order. */
function run(rules: PresenceRules, ...steps: [PresenceEvent, number][]): PresenceOutcome[] {
  let state = initialPresence;
  return steps.map(([event, at]) => {
    const outcome = decidePresence(state, event, rules, start + at);
    state = outcome.state;
    return outcome;
  });
}

function isOnlineAfter(rules: PresenceRules, ...steps: [PresenceEvent, number][]): boolean {
  return run(rules, ...steps).at(-1)!.state.isOnline;
}

function announcedIn(outcomes: PresenceOutcome[]): (string | undefined)[] {
  return outcomes.map(({ announce }) => announce);
}

it.each<[string, boolean, PresenceRules, PresenceEvent]>([
  ['when its broker reports a session', true, reporting, connected(0)],
  ['when its login was accepted by a broker that reports no sessions', true, silent, authenticated],
  ['not by its login alone where the broker reports sessions', false, reporting, authenticated],
  ['when a report comes, where the broker reports sessions', true, reporting, message(0)],
  ['when a report comes, where it reports none', true, silent, message(0)],
  ['when an announcement comes, where the broker reports sessions', true, reporting, announced('online', 0)],
  ['when an announcement comes, where it reports none', true, silent, announced('online', 0)],
])('a device is online %s', (_, isOnline, rules, event) => {
  expect(isOnlineAfter(rules, [event, 10])).toBe(isOnline);
});

describe('a doubt', () => {
  it.each([
    ['a message', message(minute + second)],
    ['an announcement', announced('online', minute + second)],
    ['a new session', connected(minute + second)],
  ])('is outweighed by %s since then, whichever comes first', (_, evidence) => {
    const [doubt, late]: [PresenceEvent, PresenceEvent] = [doubted(minute), due];
    const first = [connected(0), 0] as [PresenceEvent, number];
    expect(isOnlineAfter(reporting, first, [evidence, 70 * second], [doubt, 2 * minute], [late, hour])).toBe(true);
    expect(isOnlineAfter(reporting, first, [doubt, 2 * minute], [evidence, 130 * second], [late, hour])).toBe(true);
  });

  it('changes nothing for a device that is watched by its messages alone, or is offline', () => {
    for (const [rules, began] of [[silent, authenticated] as const, [reporting, message(0)] as const]) {
      const [before, after] = run(rules, [began, 0], [doubted(minute, 0), minute]);
      expect(after?.state).toEqual(before?.state);
    }
    const outcomes = run(
      reporting,
      [connected(0), 0],
      [disconnected(0, second), second],
      [doubted(minute), 2 * second],
    );
    expect(outcomes.at(-1)?.state).toEqual(outcomes.at(-2)?.state);
  });

  it('is not put off by being repeated', () => {
    const steps: [PresenceEvent, number][] = [
      [connected(0), 0],
      [doubted(minute), 2 * minute],
      [doubted(minute), 2 * minute + 59 * second],
      [due, 3 * minute],
    ];
    expect(isOnlineAfter(reporting, ...steps)).toBe(false);
  });
});

describe('a device is offline', () => {
  it.each([
    ['its session ends', disconnected(0, minute)],
    ['a session ends that the broker does not name', disconnected(null, minute)],
    ['it says so', announced('offline', minute)],
  ])('when %s', (_, event) => {
    expect(isOnlineAfter(reporting, [connected(0), 0], [event, minute])).toBe(false);
  });

  it('when it stays silent beyond one and a half keep-alive periods, and not earlier', () => {
    expect(silenceMs - presenceTimes.recordResolutionMs(60)).toBeGreaterThanOrEqual(90 * second);
    expect(silenceMs).toBeLessThanOrEqual(120 * second);
    expect(isOnlineAfter(silent, [authenticated, 0], [message(minute), minute], [due, minute + silenceMs - 1])).toBe(
      true,
    );
    expect(isOnlineAfter(silent, [authenticated, 0], [message(minute), minute], [due, minute + silenceMs])).toBe(false);
  });

  it('when its broker has forgotten its session and it does not show in time that it is there', () => {
    const steps: [PresenceEvent, number][] = [
      [connected(0), 0],
      [message(second), second],
      [doubted(minute), 2 * minute],
    ];
    expect(isOnlineAfter(reporting, ...steps, [due, 3 * minute - 1])).toBe(true);
    expect(run(reporting, ...steps, [due, 3 * minute]).at(-1)).toMatchObject({
      state: { isOnline: false, isSessionOpen: false, lastOnlineAtMs: start + second },
      transition: { reason: 'unconfirmed', atMs: start + second },
      announce: 'offline',
    });
  });

  it('at once when its broker says that it has no connection', () => {
    const outcomes = run(reporting, [connected(0), 0], [doubted(minute, 0), minute + second]);
    expect(outcomes.at(-1)).toMatchObject({
      state: { isOnline: false, lastOnlineAtMs: start },
      transition: { reason: 'unconfirmed' },
    });
  });

  it('by silence where its own word is all there is, even if the broker reports sessions', () => {
    const outcomes = run(reporting, [message(0), 0], [due, silenceMs]);
    expect(outcomes.at(-1)).toMatchObject({ transition: { isOnline: false, reason: 'silence' }, announce: 'offline' });
  });

  it('when its credentials were revoked, until a session that begins later', () => {
    const steps: [PresenceEvent, number][] = [
      [connected(0), 0],
      [{ kind: 'revoked' }, minute],
    ];
    expect(isOnlineAfter(reporting, ...steps)).toBe(false);
    expect(isOnlineAfter(reporting, ...steps, [message(minute), minute + 5])).toBe(false);
    expect(isOnlineAfter(reporting, ...steps, [connected(2 * minute), 2 * minute])).toBe(true);
  });
});

it.each([
  ['its session', [connected(0), 5], [announced('offline', 50), 60]],
  [
    'its session, after it announced itself',
    [connected(0), 5],
    [announced('online', 20), 25],
    [announced('offline', 50), 60],
  ],
  [
    'its session, which was reported after it spoke',
    [announced('online', 20), 25],
    [connected(0), 30],
    [announced('offline', 50), 60],
  ],
  ['its login', [authenticated, 0], [announced('offline', 50), 60]],
] as [string, ...[PresenceEvent, number][]][])('a farewell counts right after the beginning of %s', (_, ...steps) => {
  expect(isOnlineAfter(reporting, ...steps)).toBe(false);
});

describe('subscribers', () => {
  it('are told what the device did not say itself', () => {
    expect(announcedIn(run(reporting, [connected(0), 0]))).toEqual(['online']);
    expect(announcedIn(run(reporting, [announced('online', 0), 0], [connected(0), 1]))).toEqual([undefined, undefined]);
  });

  it('hear of no flapping that ends within the grace', () => {
    const outcomes = run(
      reporting,
      [connected(0), 0],
      [disconnected(0, minute), minute],
      [due, minute + 4 * second],
      [connected(minute + 4_500), minute + 4_600],
      [due, minute + 9 * second],
    );
    expect(announcedIn(outcomes)).toEqual(['online', undefined, undefined, undefined, undefined]);
    expect(outcomes.map(({ transition }) => transition?.isOnline)).toEqual([true, false, undefined, true, undefined]);
  });

  it('hear of a lost connection when the grace is over', () => {
    const steps: [PresenceEvent, number][] = [
      [connected(0), 0],
      [disconnected(0, minute), minute],
      [due, minute + 5 * second],
    ];
    expect(announcedIn(run(reporting, ...steps))).toEqual(['online', undefined, 'offline']);
    const hasty = { ...reporting, offlineGraceMs: 0 };
    expect(announcedIn(run(hasty, ...steps))).toEqual(['online', 'offline', undefined]);
  });

  it('are corrected where a late announcement told them what is not true', () => {
    const outcomes = run(
      reporting,
      [connected(0), 0],
      [disconnected(0, minute), minute],
      [due, minute + 5 * second],
      [announced('online', 30 * second), minute + 8 * second],
    );
    expect(outcomes.at(-1)).toMatchObject({ state: { isOnline: false }, announce: 'offline' });
  });

  it('of a disabled device are told that it is offline, and the truth when it is enabled', () => {
    const { state } = run(reporting, [connected(0), 0]).at(-1)!;
    const disabled = decidePresence(state, due, { ...reporting, isDisabled: true }, start + minute);
    expect(disabled).toMatchObject({ state: { isOnline: true }, announce: 'offline', transition: undefined });
    const enabled = decidePresence(disabled.state, due, reporting, start + 2 * minute);
    expect(enabled).toMatchObject({ state: { isOnline: true }, announce: 'online', transition: undefined });
  });
});

it('the last moment online is the end the broker names or the last sign of life, and never in the future', () => {
  const lastOf = (...outcomes: PresenceOutcome[]) => outcomes.at(-1)!.state.lastOnlineAtMs;
  expect(lastOf(...run(reporting, [connected(0), 0], [disconnected(0, minute), 2 * minute]))).toBe(start + minute);
  expect(lastOf(...run(silent, [message(minute), minute], [due, 9 * minute]))).toBe(start + minute);
  expect(lastOf(...run(silent, [message(minute), second]))).toBe(start + second);
});

it('coming back is a new session, an announcement, or any sign of life after it had gone', () => {
  const returns = (...outcomes: PresenceOutcome[]) => outcomes.map(({ hasReturned }) => hasReturned);
  const steps: [PresenceEvent, number][] = [
    [connected(0), 0],
    [message(second), second],
    [connected(minute), minute],
    [connected(minute), minute],
    [announced('online', minute + second), minute + second],
    [disconnected(minute, 2 * minute), 2 * minute],
    [message(3 * minute), 3 * minute],
  ];
  expect(returns(...run(reporting, ...steps))).toEqual([true, false, true, false, true, false, true]);
});
