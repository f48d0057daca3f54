// The presence machine against a truth that knows no machine: thousands of histories of sessions, on a network that
// delays, reorders and loses what tells of them.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decidePresence,
  initialPresence,
  inactivityDueAtMs,
  type PresenceEvent,
  type PresenceRules,
  type PresenceState,
} from '../../../src/domain/device/presence/presence.ts';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';
import {
  announced,
  authenticated,
  connected,
  disconnected,
  due,
  message,
  minute,
  reporting,
  second,
  silent,
  start,
} from './presence-events.ts';

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

  /** The time in ms that a message is on its way to the service. */
  delay(): number {
    return this.below(this.of(500, 90 * second));
  }
}

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

/** @param judge fails for a history whose end is not the truth */
function tryHistories(numRuns: number, judge: (sessions: Session[], chance: Chance) => void): void {
  const histories = fc.property(sessionsArbitrary, fc.integer(), (sessions, seed) => judge(sessions, new Chance(seed)));
  fc.assert(histories, { numRuns, seed: fuzzSeed });
}

const endOf = (arrivals: Arrival[]) => Math.max(...arrivals.map(({ at }) => at));

function expectTruth(state: PresenceState, sessions: Session[]): void {
  expect(state.isOnline).toBe(isTrulyOnline(sessions));
  // In the end subscribers believe what is true, too.
  expect(state.lastAnnounced ?? 'offline').toBe(state.isOnline ? 'online' : 'offline');
}

describe('every history of two or three sessions', () => {
  it('ends in the truth where the broker reports connections: 10 000 histories', () => {
    tryHistories(10_000, (sessions, chance) => {
      const arrivals = observe(sessions, reporting, chance);
      expectTruth(live(arrivals, reporting, endOf(arrivals) + 10 * minute), sessions);
    });
  });

  it('ends in the truth where silence has to tell: 10 000 histories', () => {
    tryHistories(10_000, (sessions, chance) => {
      const arrivals = observe(sessions, silent, chance);
      let untilAt = endOf(arrivals) + 10 * minute;
      if (isTrulyOnline(sessions)) {
        // An open session lives by its keep-alive: what says nothing for two periods is not there.
        untilAt = endOf(arrivals) + 30 * second;
        arrivals.push({ event: message(untilAt), at: untilAt + 300 });
        untilAt += minute;
      }
      expectTruth(live(arrivals, silent, untilAt), sessions);
    });
  });

  it('heals with the next report where the bridge was away and dated old messages late', () => {
    tryHistories(2_000, (sessions, chance) => {
      const rules = chance.of(reporting, silent);
      const backAt = chance.below(60 * minute);
      const arrivals = observe(sessions, rules, chance).map(({ event, at }): Arrival =>
        'atMs' in event
          ? { event: { ...event, atMs: Math.max(event.atMs, start + backAt) }, at: Math.max(at, backAt) }
          : { event, at },
      );
      let untilAt = endOf(arrivals) + 10 * minute;
      if (isTrulyOnline(sessions)) {
        arrivals.push({ event: message(untilAt), at: untilAt });
        untilAt += minute;
      }
      expect(live(arrivals, rules, untilAt).isOnline).toBe(isTrulyOnline(sessions));
    });
  });
});
