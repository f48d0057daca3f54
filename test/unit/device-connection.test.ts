// The presence machine: each rule by name, and thousands of histories against a truth that knows no machine.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decidePresence,
  initialPresence,
  recordResolutionMs,
  inactivityDueAtMs,
  inactivityTimeoutMs,
  type PresenceEvent,
  type PresenceOutcome,
  type PresenceRules,
  type PresenceState,
} from '../../src/domain/device/connection.ts';
import { fuzzSeed } from '../rig/fuzzing.ts';

const second = 1_000;
const minute = 60 * second;
const start = 1_763_000_000_000;
const silenceMs = inactivityTimeoutMs(60);

const reporting: PresenceRules = {
  reportsConnections: true,
  inactivityTimeoutMs: silenceMs,
  offlineGraceMs: 5 * second,
  isDisabled: false,
};
const silent: PresenceRules = { ...reporting, reportsConnections: false };

const connected = (at: number): PresenceEvent => ({ kind: 'connected', sessionStartedAtMs: start + at });
const disconnected = (sessionAt: number | null, at: number, reason = 'tcp_closed'): PresenceEvent => ({
  kind: 'disconnected',
  sessionStartedAtMs: sessionAt === null ? null : start + sessionAt,
  endedAtMs: start + at,
  reason,
});
const announced = (status: 'online' | 'offline', at: number): PresenceEvent => ({
  kind: 'announced',
  status,
  atMs: start + at,
});
const message = (at: number): PresenceEvent => ({ kind: 'message', atMs: start + at });
const authenticated: PresenceEvent = { kind: 'authenticated' };
const due: PresenceEvent = { kind: 'due' };

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

describe('a device is online', () => {
  it('when its broker reports a session', () => {
    expect(isOnlineAfter(reporting, [connected(0), 10])).toBe(true);
  });

  it('when its login was accepted by a broker that reports no sessions', () => {
    expect(isOnlineAfter(silent, [authenticated, 10])).toBe(true);
  });

  it('not by its login alone where the broker reports sessions', () => {
    expect(isOnlineAfter(reporting, [authenticated, 10])).toBe(false);
  });

  it.each([
    ['a report', message(0)],
    ['an announcement', announced('online', 0)],
  ])('when %s comes', (_, event) => {
    expect(isOnlineAfter(reporting, [event, 10])).toBe(true);
    expect(isOnlineAfter(silent, [event, 10])).toBe(true);
  });

  it('after it took over its own old session, whatever order the reports have', () => {
    const takenOver = disconnected(0, minute, 'takenover');
    expect(isOnlineAfter(reporting, [connected(0), 0], [connected(minute), minute], [takenOver, minute])).toBe(true);
    expect(isOnlineAfter(reporting, [connected(0), 0], [takenOver, minute], [connected(minute), 2 * minute])).toBe(
      true,
    );
  });

  it('although the will of the session it replaced arrives after it', () => {
    const outcomes = run(
      silent,
      [authenticated, 0],
      [authenticated, minute],
      [announced('offline', minute + 300), minute + 400],
    );
    expect(outcomes.at(-1)).toMatchObject({ state: { isOnline: true }, announce: 'online' });
  });

  it('although an end of an earlier session arrives an hour late', () => {
    const steps: [PresenceEvent, number][] = [
      [connected(0), 0],
      [connected(minute), minute],
      [disconnected(0, 30 * second), 60 * minute],
    ];
    expect(isOnlineAfter(reporting, ...steps)).toBe(true);
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
    expect(silenceMs - recordResolutionMs(60)).toBeGreaterThanOrEqual(90 * second);
    expect(silenceMs).toBeLessThanOrEqual(120 * second);
    expect(isOnlineAfter(silent, [authenticated, 0], [message(minute), minute], [due, minute + silenceMs - 1])).toBe(
      true,
    );
    expect(isOnlineAfter(silent, [authenticated, 0], [message(minute), minute], [due, minute + silenceMs])).toBe(false);
  });

  it('never by silence while its broker holds a session', () => {
    expect(isOnlineAfter(reporting, [connected(0), 0], [due, 24 * 60 * minute])).toBe(true);
  });

  it('by silence where its own word is all there is, even if the broker reports sessions', () => {
    const outcomes = run(reporting, [message(0), 0], [due, silenceMs]);
    expect(outcomes.at(-1)).toMatchObject({ transition: { isOnline: false, reason: 'silence' }, announce: 'offline' });
  });

  it('although the report of its session begins after the report of its end', () => {
    expect(isOnlineAfter(reporting, [disconnected(0, minute), minute], [connected(0), 2 * minute])).toBe(false);
    expect(isOnlineAfter(reporting, [disconnected(null, minute), minute], [connected(0), 2 * minute])).toBe(false);
  });

  it('although a message sent before the end arrives after it', () => {
    const end: [PresenceEvent, number] = [disconnected(0, minute), minute + 50];
    expect(isOnlineAfter(reporting, [connected(0), 0], end, [message(minute - 1), minute + 90])).toBe(false);
    expect(isOnlineAfter(reporting, [connected(0), 0], end, [message(minute + second), minute + 2 * second])).toBe(
      false,
    );
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

describe('a farewell', () => {
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
  ] as [string, ...[PresenceEvent, number][]][])('counts right after the beginning of %s', (_, ...steps) => {
    expect(isOnlineAfter(reporting, ...steps)).toBe(false);
  });
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

describe('the last moment online', () => {
  it('is the end the broker names, the last sign of life before a silence, and never in the future', () => {
    const lastOf = (...outcomes: PresenceOutcome[]) => outcomes.at(-1)!.state.lastOnlineAtMs;
    expect(lastOf(...run(reporting, [connected(0), 0], [disconnected(0, minute), 2 * minute]))).toBe(start + minute);
    expect(lastOf(...run(silent, [message(minute), minute], [due, 9 * minute]))).toBe(start + minute);
    expect(lastOf(...run(silent, [message(minute), second]))).toBe(start + second);
  });
});

describe('coming back', () => {
  it('is a new session, an announcement, or any sign of life after it had gone', () => {
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
});

// --- Histories -------------------------------------------------------------------------------------------------------

type Session = {
  startsAt: number;
  /** null: open to the end of the history. */
  endsAt: number | null;
  /** The next session of the same client replaced it. */
  isTakenOver: boolean;
  announcesOnline: boolean;
  farewell: 'none' | 'announced' | 'will';
  reportsAt: number[];
};
type Arrival = { event: PresenceEvent; at: number };

/** Which events the network may lose without leaving nothing that could tell the truth. */
type Sent = Arrival & { isLosable: boolean };

/** The fate of each message, from one seed: histories are long, and what fast-check remembers of each choice adds up. */
class Chance {
  #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  below(limit: number): number {
    this.#seed = (this.#seed + 0x6d2b79f5) | 0;
    let bits = Math.imul(this.#seed ^ (this.#seed >>> 15), 1 | this.#seed);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return Math.floor((((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32) * limit);
  }

  of<T>(...choices: T[]): T {
    return choices[this.below(choices.length)]!;
  }

  /** From the broker to the bridge, which dates what comes. */
  lag(): number {
    return this.below(900);
  }

  /** On the way to the service. */
  delay(): number {
    return this.below(this.of(500, 90 * second));
  }
}

const seedArbitrary = fc.integer();

const sessionsArbitrary: fc.Arbitrary<Session[]> = fc
  .array(
    fc.record({
      gap: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 3 * second }), fc.integer({ min: 1, max: 10 * minute })),
      length: fc.oneof(fc.integer({ min: 3 * second, max: minute }), fc.integer({ min: minute, max: 30 * minute })),
      announcesOnline: fc.boolean(),
      farewell: fc.constantFrom('none', 'announced', 'will' as const),
      reports: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 3 }),
    }),
    { minLength: 2, maxLength: 3 },
  )
  .chain((drafts) => fc.record({ drafts: fc.constant(drafts), isLastOpen: fc.boolean() }))
  .map(({ drafts, isLastOpen }) => {
    let clock = 0;
    return drafts.map((draft, index) => {
      const startsAt = clock + (index === 0 ? 0 : draft.gap);
      const endsAt = startsAt + draft.length;
      clock = endsAt;
      const isLast = index === drafts.length - 1;
      return {
        startsAt,
        endsAt: isLast && isLastOpen ? null : endsAt,
        isTakenOver: !isLast && drafts[index + 1]!.gap === 0,
        announcesOnline: draft.announcesOnline,
        farewell: draft.farewell,
        reportsAt: draft.reports.map((share) => Math.round(startsAt + share * draft.length)).sort((a, b) => a - b),
      };
    });
  });

/**
 * What reaches the service of a history. Messages of one device pass the bridge in the order they were sent and are
 * dated there; everything may be delayed, doubled, overtaken or, where something else still tells the truth, lost.
 */
function observe(sessions: Session[], rules: PresenceRules, chance: Chance): Arrival[] {
  const sent: Sent[] = [];
  let lastDatedAt = 0;
  const sendMessage = (at: number, event: (atMs: number) => PresenceEvent, isLosable = true) => {
    lastDatedAt = Math.max(lastDatedAt + 1, at + chance.lag());
    sent.push({ event: event(lastDatedAt), at: lastDatedAt + chance.delay(), isLosable });
  };
  for (const [index, session] of sessions.entries()) {
    const isLast = index === sessions.length - 1;
    const { startsAt, endsAt } = session;
    // A login is asked for, not reported: it cannot be late or lost.
    sent.push({ event: authenticated, at: startsAt, isLosable: false });
    if (rules.reportsConnections) {
      const at = startsAt + chance.delay();
      sent.push({ event: connected(startsAt), at, isLosable: !(isLast && endsAt === null) });
    }
    if (session.announcesOnline) sendMessage(startsAt, (at) => announced('online', at));
    for (const at of session.reportsAt) sendMessage(at, message);
    if (endsAt === null) continue;
    if (session.farewell === 'announced' && !session.isTakenOver) sendMessage(endsAt, (at) => announced('offline', at));
    if (session.farewell === 'will') sendMessage(endsAt, (at) => announced('offline', at));
    if (rules.reportsConnections) {
      const namesSession = chance.of(true, false);
      const reason = session.isTakenOver ? chance.of('takenover', 'discarded') : 'tcp_closed';
      const event = disconnected(namesSession ? startsAt : null, endsAt, reason);
      sent.push({ event, at: endsAt + chance.delay(), isLosable: !isLast });
    }
  }
  return sent.flatMap(({ event, at, isLosable }) => {
    const copies = isLosable ? chance.of(0, 1, 1, 1, 2) : chance.of(1, 1, 2);
    const isAsked = event.kind === 'authenticated';
    return Array.from({ length: isAsked ? 1 : copies }, (_, copy) => ({
      event,
      at: copy === 0 ? at : at + chance.delay(),
    }));
  });
}

/** Everything that arrives, in the order of arrival, with silence judged whenever it is due. */
function live(arrivals: Arrival[], rules: PresenceRules, untilAt: number): PresenceState {
  let state = initialPresence;
  const applyEvent = (at: number) => {
    for (let dueAtMs = nextDue(); dueAtMs !== null && dueAtMs <= start + at; dueAtMs = nextDue()) {
      state = decidePresence(state, due, rules, dueAtMs).state;
    }
  };
  const nextDue = () => {
    const times = [state.announceAtMs, inactivityDueAtMs(state, rules)].filter((time) => time !== null);
    return times.length === 0 ? null : Math.min(...times);
  };
  for (const { event, at } of arrivals.toSorted((one, other) => one.at - other.at)) {
    applyEvent(at);
    state = decidePresence(state, event, rules, start + at).state;
  }
  applyEvent(untilAt);
  return state;
}

/** The truth, by what the device did and nothing else. Long after the last event only an open session is online. */
function isTrulyOnline(sessions: Session[]): boolean {
  return sessions.some(({ endsAt }) => endsAt === null);
}

describe('every history of two or three sessions', () => {
  it('ends in the truth where the broker reports connections: 10 000 histories', () => {
    fc.assert(
      fc.property(sessionsArbitrary, seedArbitrary, (sessions, seed) => {
        const arrivals = observe(sessions, reporting, new Chance(seed));
        const untilAt = Math.max(...arrivals.map(({ at }) => at)) + 10 * minute;
        const state = live(arrivals, reporting, untilAt);
        expect(state.isOnline).toBe(isTrulyOnline(sessions));
        // In the end subscribers believe what is true, too.
        expect(state.lastAnnounced ?? 'offline').toBe(state.isOnline ? 'online' : 'offline');
      }),
      { numRuns: 10_000, seed: fuzzSeed },
    );
  });

  it('ends in the truth where silence has to tell: 10 000 histories', () => {
    fc.assert(
      fc.property(sessionsArbitrary, seedArbitrary, (sessions, seed) => {
        const arrivals = observe(sessions, silent, new Chance(seed));
        let untilAt = Math.max(...arrivals.map(({ at }) => at)) + 10 * minute;
        if (isTrulyOnline(sessions)) {
          // An open session lives by its keep-alive: what says nothing for two periods is not there.
          untilAt = Math.max(...arrivals.map(({ at }) => at)) + 30 * second;
          arrivals.push({ event: message(untilAt), at: untilAt + 300 });
          untilAt += minute;
        }
        const state = live(arrivals, silent, untilAt);
        expect(state.isOnline).toBe(isTrulyOnline(sessions));
        expect(state.lastAnnounced ?? 'offline').toBe(state.isOnline ? 'online' : 'offline');
      }),
      { numRuns: 10_000, seed: fuzzSeed },
    );
  });

  it('heals with the next report where the bridge was away and dated old messages late', () => {
    fc.assert(
      fc.property(sessionsArbitrary, seedArbitrary, fc.boolean(), (sessions, seed, reports) => {
        const chance = new Chance(seed);
        const rules = reports ? reporting : silent;
        const backAt = chance.below(60 * minute);
        const arrivals = observe(sessions, rules, chance).map(({ event, at }): Arrival =>
          'atMs' in event
            ? { event: { ...event, atMs: Math.max(event.atMs, start + backAt) }, at: Math.max(at, backAt) }
            : { event, at },
        );
        let untilAt = Math.max(...arrivals.map(({ at }) => at)) + 10 * minute;
        if (isTrulyOnline(sessions)) {
          arrivals.push({ event: message(untilAt), at: untilAt });
          untilAt += minute;
        }
        expect(live(arrivals, rules, untilAt).isOnline).toBe(isTrulyOnline(sessions));
      }),
      { numRuns: 2_000, seed: fuzzSeed },
    );
  });
});
