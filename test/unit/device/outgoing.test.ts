// Events for webhooks on the core: what becomes an event, for whom, and how cursors move through answers and restarts. The ring in
// storage, directories and endpoints: test/worker/webhooks.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { outgoingSlice, type Webhooks } from '../../../src/domain/device/core/outgoing.ts';
import {
  eventRingSize,
  eventsPerTake,
  type TakeAnswer,
  type WebhookFilter,
} from '../../../src/domain/webhooks/webhooks.ts';
import { minuteMs, secondMs } from '../../../src/domain/time.ts';
import { eventDataSchemas } from '../../../src/protocol/events.ts';
import { eventTypes, type EventType } from '../../../src/protocol/vocabulary.ts';
import { CoreDevice, once, proofOf, up } from './core-device.ts';

const start = Date.UTC(2027, 5, 6, 22);
const [owner, claimant, member] = [1, 5, 7];
const filter = { webhookId: 'w', productKey: null, deviceIds: null, disabledBecause: null };
const wants = (types: readonly EventType[], userId = owner, more: Partial<WebhookFilter> = {}) => {
  return { ...filter, types: [...types], userId, isOld: false, ...more };
};

function watched(...list: Webhooks['list']): CoreDevice {
  const device = new CoreDevice(start);
  device.webhooks = { isComplete: true, list: list.length === 0 ? [wants(eventTypes)] : list };
  return device;
}

/** One whose reports are sent, after it has made these. */
function reporting(...positions: string[]): CoreDevice {
  const device = watched(wants(['device.reported']));
  device.connect();
  for (const position of positions) device.report(position);
  return device;
}

const noted = (device: CoreDevice) => device.outgoing.map(({ number, type }) => `${number} ${type}`);
const sends = (device: CoreDevice) => device.effects.filter((effect) => effect.kind === 'deliver_events');
const asks = (device: CoreDevice) => device.effects.filter((effect) => effect.kind === 'learn_webhooks');
/** Answers the last call. */
const take = (device: CoreDevice, answer: TakeAnswer) => {
  const { webhookId = '', after = 0 } = sends(device).at(-1) ?? {};
  device.run({ kind: 'events_taken', webhookId, after, answer });
};
const cursors = (device: CoreDevice) => device.state.outgoing.consumers.map(({ cursor }) => cursor);
const join = (device: CoreDevice) =>
  device.run({
    kind: 'member_joined',
    ...{ userId: member, email: 'm@example.test', address: null, role: 'viewer', invitedBy: owner },
  });
const press = (device: CoreDevice) => device.request({ params: up, ttlSeconds: undefined });
const claim = (device: CoreDevice) => {
  const { settings } = device.state;
  const { deviceId, ...facts } = device.state.identity;
  const proof = { ...proofOf('other'), claimantId: claimant };
  device.run({ kind: 'provisioned', deviceId, settings, facts, ...proof });
};

describe('events', () => {
  it('are numbered without holes, with the body of their type', () => {
    const device = watched();
    device.connect();
    device.report('middle');
    press(device);
    device.reply();
    device.report('up');
    device.schedule('s', once(start + minuteMs));
    device.waitUntil(start + minuteMs);
    device.reply();
    device.report('up');
    device.disconnect();
    device.wait(minuteMs);
    join(device);
    const types = [
      ...['device.online', 'device.reported', 'device.reported', 'command.settled', 'run.settled', 'command.settled'],
      ...['device.offline', 'member.changed', 'device.claimed'],
    ];
    expect(noted(device)).toEqual(types.map((type, index) => `${index + 1} ${type}`));
    for (const { type, data } of device.outgoing) expect(eventDataSchemas[type].strict().parse(data)).toEqual(data);
  });

  it('are neither noted nor written without a webhook that wants them', () => {
    for (const list of [[], [wants(['run.settled'])], [wants(eventTypes, owner, { deviceIds: ['dev_other'] })]]) {
      const device = watched();
      device.webhooks = { isComplete: true, list };
      device.connect();
      device.report('up');
      expect(device.outgoing).toEqual([]);
      expect(sends(device)).toEqual([]);
      expect(Object.keys(device.savedRows()).includes('outgoing')).toBe(list[0]?.types.length === 1);
    }
  });

  it('that say who shares the device are for its owner alone', () => {
    const device = watched(wants(eventTypes, member));
    join(device);
    expect(noted(device)).toEqual([]);
  });

  it('of the measurement alone, and of a return within the grace, there are none', () => {
    const device = watched();
    device.connect();
    const before = device.outgoing.length;
    device.receive('thing/event/property/post', { params: { wifi_rssi: -60, colour: 'red' } });
    device.run({
      kind: 'product_changed',
      facts: { ...device.state.identity, offlineGraceSeconds: 60, productChangedAtMs: 1 },
    });
    device.disconnect();
    device.wait(10 * secondMs);
    device.connect();
    device.wait(2 * minuteMs);
    expect(device.outgoing.length).toBe(before);
  });

  it('tell the end of a command that nobody answers, once, after a restart as well', () => {
    const device = watched(wants(['command.settled']));
    device.connect();
    press(device);
    device.sleep();
    device.wait(minuteMs);
    expect(device.outgoing).toMatchObject([{ data: { state: 'expired', reason: 'no_reply' } }]);
    device.reply();
    device.report('up');
    expect(device.outgoing).toHaveLength(1);
  });

  it('of a former owner are not sent, and their numbers do not return', () => {
    const device = watched();
    device.connect();
    device.webhooks = { isComplete: true, list: [wants(eventTypes, claimant, { webhookId: 'other' })] };
    claim(device);
    expect(noted(device)).toEqual(['1 device.online', '2 device.activated', '3 device.claimed', '4 device.offline']);
    expect(sends(device).at(-1)).toMatchObject({ webhookId: 'other', after: 1, last: 4 });
    device.sleep();
    expect(device.state.outgoing.consumers).toMatchObject([{ webhookId: 'other', cursor: 1 }]);
    device.run({ kind: 'released', actor: inPerson(claimant), defaultName: 'S' });
    expect(device.state.outgoing).toMatchObject({ last: 4, consumers: [] });
  });
});

describe('while a directory has not answered', () => {
  it('all is noted, for a webhook that comes with the answer, and it is asked again later', () => {
    const device = new CoreDevice(start);
    device.webhooks = { isComplete: false, list: [] };
    device.connect();
    device.report('up');
    expect(asks(device)).toHaveLength(1);
    device.run({ kind: 'webhooks_changed' });
    expect(asks(device)).toHaveLength(1);
    device.sleep();
    device.report('middle');
    expect(asks(device)).toHaveLength(2);
    device.webhooks = { isComplete: true, list: [wants(['device.reported'])] };
    device.run({ kind: 'webhooks_changed' });
    expect(sends(device)).toMatchObject([{ after: 0, last: 3, types: ['device.reported'] }]);
    expect(device.state.outgoing.unansweredFrom).toBeNull();
    device.webhooks = { isComplete: false, list: [] };
    device.report('up');
    expect(asks(device)).toHaveLength(3);
  });

  it('a webhook that it may have changed gets nothing', () => {
    const device = reporting();
    device.webhooks = { isComplete: false, list: [{ ...wants(['device.reported']), isOld: true }] };
    device.report('up');
    expect(sends(device)).toEqual([]);
    device.webhooks = { isComplete: true, list: [wants(['device.online'])] };
    device.run({ kind: 'webhooks_changed' });
    expect(sends(device)).toMatchObject([{ after: 0, last: 1, types: ['device.online'] }]);
  });

  it('is asked by the alarm if nothing else happens', () => {
    const device = new CoreDevice(start);
    device.webhooks = { isComplete: false, list: [] };
    device.connect();
    device.wait(11 * minuteMs);
    expect(asks(device).length).toBeGreaterThan(1);
  });
});

describe('an endpoint', () => {
  it('is called once at a time, then with what came meanwhile', () => {
    const device = reporting('up', 'down');
    expect(sends(device)).toMatchObject([{ after: 0, last: 1 }]);
    take(device, { upTo: 1 });
    expect(sends(device).slice(1)).toMatchObject([{ after: 1, last: 2 }]);
    take(device, { upTo: 2 });
    expect(sends(device)).toHaveLength(2);
    expect(JSON.parse(device.savedRows()['outgoing'] ?? '')).toMatchObject({
      outgoing: { consumers: [{ cursor: 2 }] },
    });
  });

  it('that asks for later is called then, by the alarm, and one that took nothing after a pause', () => {
    const device = reporting('up');
    take(device, { laterAtMs: start + 5 * minuteMs, failures: 3 });
    device.sleep();
    device.report('down');
    expect(sends(device)).toHaveLength(1);
    device.wait(5 * minuteMs - 1);
    expect(sends(device)).toHaveLength(1);
    device.wait(1);
    expect(sends(device).slice(1)).toMatchObject([{ after: 0, last: 2, failures: 3 }]);
    take(device, { upTo: 0 });
    expect(sends(device)).toHaveLength(2);
    device.wait(minuteMs);
    expect(sends(device)).toHaveLength(3);
  });

  it('that failed is called at once when its webhook was changed', () => {
    const device = reporting('up');
    take(device, { laterAtMs: start + 86_400_000 });
    const list = [wants(['device.reported'])];
    device.webhooks = { isComplete: false, list: list.map((webhook) => ({ ...webhook, isOld: true })) };
    device.run({ kind: 'webhooks_changed' });
    expect(asks(device)).toHaveLength(1);
    device.webhooks = { isComplete: true, list };
    device.run({ kind: 'webhooks_changed' });
    expect(sends(device)).toHaveLength(2);
  });

  it('gets again what was under way when the object ended', () => {
    const device = reporting('up');
    device.sleep();
    expect(outgoingSlice.dueAtMs?.(device.state, device.nowMs)).toBe(device.nowMs + 10 * minuteMs);
    device.wait(10 * minuteMs);
    expect(sends(device).slice(1)).toMatchObject([{ after: 0, last: 1 }]);
  });

  it('that is gone gets nothing that waits', () => {
    const device = reporting('up');
    take(device, 'gone');
    expect(cursors(device)).toEqual([1]);
    expect(sends(device)).toHaveLength(1);
  });

  it('that is disabled gets what waits once it is enabled, and sets no alarm before', () => {
    const device = reporting('up');
    take(device, {});
    device.webhooks = { isComplete: true, list: [{ ...wants(['device.reported']), disabledBecause: 'receiver_gone' }] };
    device.sleep();
    device.report('down');
    device.wait(20 * minuteMs);
    expect([cursors(device), sends(device).length]).toEqual([[0], 1]);
    expect(outgoingSlice.dueAtMs?.(device.state, device.nowMs)).toBe(Infinity);
    device.webhooks = { isComplete: true, list: [wants(['device.reported'])] };
    device.run({ kind: 'webhooks_changed' });
    expect(sends(device).slice(1)).toMatchObject([{ after: 0, last: 2 }]);
  });

  it('that always has more to take begins no more than a batch before after a restart', () => {
    const device = reporting('up');
    for (let number = 1; number <= 120; number += 1) {
      device.report(number % 2 === 0 ? 'up' : 'down');
      take(device, { upTo: number });
    }
    device.sleep();
    expect(cursors(device)).toEqual([100]);
  });

  it('gets events again by request of its user, whatever is under way', () => {
    const device = reporting('up', 'down', 'middle');
    take(device, { upTo: 1 });
    const redeliver = (userId: number, webhookId: string) =>
      device.run({ kind: 'redelivery_requested', actor: inPerson(userId), webhookId, from: 1 });
    expect(redeliver(owner, 'w')).toMatchObject({ ok: true });
    // The answer of the call before.
    device.run({ kind: 'events_taken', webhookId: 'w', after: 1, answer: { upTo: 3 } });
    expect(cursors(device)).toEqual([0]);
    expect(sends(device).at(-1)).toMatchObject({ after: 0, last: 3 });
    expect(redeliver(owner, 'v')).toMatchObject({ refusal: { kind: 'not_found', what: 'webhook' } });
    join(device);
    expect(redeliver(member, 'w')).toMatchObject({ refusal: { kind: 'not_found', what: 'webhook' } });
  });

  it('is not called for what another wants', () => {
    const device = watched(wants(['device.reported']), wants(['device.online'], owner, { webhookId: 'other' }));
    device.connect();
    take(device, { upTo: 1 });
    device.report('up');
    expect(sends(device).map(({ webhookId }) => webhookId)).toEqual(['other', 'w']);
    expect(cursors(device)).toEqual([1, 2]);
  });
});

const deeds = ['report', 'burst', 'press', 'connect', 'leave', 'die', 'sleep', 'wait', 'change', 'learn'] as const;
const answers = ['all', 'part', 'later', 'lost'] as const;
const steps = fc.record({ does: fc.constantFrom(...deeds, ...answers, ...answers), count: fc.nat({ max: 300 }) });

/** An endpoint beside another one that takes all at once. Its ring keeps the last events, as storage does. */
class History {
  readonly device: CoreDevice;
  readonly arrived: number[] = [];
  readonly gaps: [from: number, to: number][] = [];
  readonly #webhooks;
  #answered = 0;
  #reports = 0;

  constructor(types: readonly EventType[]) {
    this.#webhooks = [wants(types), wants(eventTypes, owner, { webhookId: 'other' })];
    this.device = watched(...this.#webhooks);
  }

  step({ does, count }: { does: (typeof deeds)[number] | (typeof answers)[number]; count: number }): void {
    const { device } = this;
    if (does === 'report') this.#report(1);
    else if (does === 'burst') this.#report(count);
    else if (does === 'press') press(device);
    else if (does === 'connect') device.connect();
    else if (does === 'leave') device.disconnect();
    else if (does === 'wait') device.wait(count * 3 * secondMs);
    else if (does === 'sleep') device.sleep();
    else if (does === 'change') this.#know(true);
    else if (does === 'learn') this.#know(false);
    else if (does === 'die') {
      device.isDying = true;
      this.#report(1);
      device.isDying = false;
    } else this.answer(does, count);
    if (['die', 'sleep'].includes(does)) this.#answered = sends(device).length;
  }

  answer(how: (typeof answers)[number], count: number): void {
    for (const call of sends(this.device).slice(this.#answered)) {
      this.#answered += 1;
      const { webhookId, after, last, types } = call;
      const oldest = Math.max(after + 1, last - eventRingSize + 1);
      const events = this.device.outgoing.slice(oldest - 1, Math.min(last, oldest - 1 + eventsPerTake));
      const isOther = webhookId === 'other';
      if (oldest > after + 1 && !isOther) this.gaps.push([after + 1, oldest - 1]);
      const wanted = events.filter(({ type }) => types.includes(type)).map(({ number }) => number);
      const delivered =
        how === 'part' && !isOther ? wanted.slice(0, count % 3) : how === 'later' && !isOther ? [] : wanted;
      if (!isOther) this.arrived.push(...delivered);
      const upTo = delivered.length === wanted.length ? (events.at(-1)?.number ?? last) : (delivered.at(-1) ?? after);
      if (how === 'lost') this.device.sleep();
      const later = { laterAtMs: this.device.nowMs + count * secondMs };
      const answer = how === 'later' && !isOther ? later : { upTo };
      if (how !== 'lost') this.device.run({ kind: 'events_taken', webhookId, after, answer });
    }
  }

  end(): void {
    this.#know(false);
    for (let round = 0; round < 30; round += 1) {
      this.answer('all', 0);
      this.device.wait(round < 15 ? 30 * secondMs : 11 * minuteMs);
    }
  }

  #report(count: number): void {
    for (let index = 0; index < count; index += 1) this.device.report(this.#reports++ % 2 === 0 ? 'up' : 'down');
  }

  #know(isOld: boolean): void {
    this.device.webhooks = { isComplete: !isOld, list: this.#webhooks.map((webhook) => ({ ...webhook, isOld })) };
    this.device.run({ kind: 'webhooks_changed' });
  }
}

it('each event arrives first in order, or is in a gap, whatever ends or answers late', () => {
  const kinds = fc.constantFrom<EventType[]>(
    ['device.reported'],
    ['command.settled'],
    ['device.online', 'device.reported'],
  );
  fc.assert(
    fc.property(fc.array(steps, { maxLength: 60 }), kinds, (list, types) => {
      const history = new History(types);
      for (const step of list) history.step(step);
      history.end();
      const { device, arrived, gaps } = history;
      const isLost = (number: number) =>
        !arrived.includes(number) && !gaps.some(([from, to]) => number >= from && number <= to);
      const wanted = device.outgoing.filter(({ type }) => types.includes(type)).map(({ number }) => number);
      expect(wanted.filter(isLost)).toEqual([]);
      const firsts = [...new Set(arrived)];
      expect(firsts).toEqual(firsts.toSorted((one, next) => one - next));
      expect(cursors(device)).toEqual([device.outgoing.length, device.outgoing.length]);
    }),
    { seed: fuzzSeed, numRuns: 200 },
  );
});
