// What a device reported of numeric properties, on the core with a moved clock: random reports against a slow recount, what a sleep
// loses, and limits. Rings of storage and HTTP: test/worker/devices/usage.test.ts.
import fc from 'fast-check';
import { expect, inject, it } from 'vitest';
import { daysKept } from '../../../src/domain/device/core/history.ts';
import { maxSeries } from '../../../src/domain/device/usage/series.ts';
import { viewHistory } from '../../../src/domain/device/usage/views.ts';
import { unwrap } from '../../../src/domain/refusal.ts';
import { dayMs, hourMs, minuteMs, secondMs, toIso } from '../../../src/domain/time.ts';
import type { HistoryQuery } from '../../../src/protocol/http/usage.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { type CoreDevice, onlineDevice } from '../device/core-device.ts';

const midnight = Date.UTC(2027, 5, 7);
const quarterMs = 15 * minuteMs;

const report = (device: CoreDevice, params: object, receivedAtMs = device.nowMs) =>
  device.receive(topicActions.propertyPost, { params }, { receivedAtMs });

function read(device: CoreDevice, query: Partial<HistoryQuery>) {
  const daysIn = (kind: 'quarters' | 'hours', first: number, last: number) =>
    device.sampled
      .filter((row) => row.kind === kind && row.entry.day >= first && row.entry.day <= last)
      .map(({ entry }) => entry);
  const whole = { property: 'power', step: 'quarter', ...query } as const;
  return viewHistory(device.state, whole, daysIn, 'UTC', device.nowMs);
}

type Sample = { atMs: number; value: number };

function recount(samples: readonly Sample[], stepMs: number) {
  const groups = Map.groupBy(samples, ({ atMs }) => Math.floor(atMs / stepMs) * stepMs);
  return [...groups].map(([fromMs, group]) => {
    const values = group.map(({ value }) => value);
    const sum = values.reduce((total, value) => total + value, 0);
    const [least, greatest] = [Math.min(...values), Math.max(...values)];
    return { at: toIso(fromMs), least, greatest, mean: sum / values.length, last: values.at(-1), count: values.length };
  });
}

it('is what a slow recount finds, by quarters, hours and days, whatever changes and sleeps', () => {
  const all = fc.array(
    fc.record({ waitSeconds: fc.integer({ min: 1, max: 4 * 3_600 }), value: fc.integer({ min: -9, max: 9 }) }),
    { maxLength: 60 },
  );
  fc.assert(
    fc.property(all, fc.boolean(), (steps, sleeps) => {
      const device = onlineDevice(midnight);
      const samples: Sample[] = [];
      for (const { waitSeconds, value } of steps) {
        device.wait(waitSeconds * secondMs);
        // A value that changes is saved: a sleep loses none of it.
        const next = sleeps && value === samples.at(-1)?.value ? value + 100 : value;
        report(device, { power: next, label: 'text', position: 'up' });
        samples.push({ atMs: device.nowMs, value: next });
        if (sleeps) device.sleep();
      }
      for (const [step, stepMs, days] of [
        ['quarter', quarterMs, 4],
        ['hour', hourMs, 16],
        ['day', dayMs, 30],
      ] as const) {
        const from = toIso(Math.floor(device.nowMs / dayMs) * dayMs - (days - 1) * dayMs);
        const { list } = unwrap(read(device, { step }));
        expect(list).toEqual(recount(samples, stepMs).filter(({ at }) => at >= from));
      }
    }),
    { numRuns: 300, seed: inject('fuzzSeed') },
  );
});

it('of a value that stays, a sleep loses what came after the first report of a quarter', () => {
  const device = onlineDevice(midnight);
  for (let minute = 0; minute < 60; minute++) {
    report(device, { power: 5 });
    device.sleep();
    device.wait(minuteMs);
  }
  report(device, { power: 5 });
  const counts = unwrap(read(device, {})).list.map(({ count, mean }) => [count, mean]);
  expect(counts).toEqual(Array.from({ length: 5 }, () => [1, 5]));
});

it('writes a row for the first report of a quarter, and another once an hour', () => {
  const device = onlineDevice(midnight);
  let writes = 0;
  let rows: Record<string, string> = {};
  for (let minute = 0; minute < 24 * 60; minute++) {
    device.wait(minuteMs);
    report(device, { power: 5 });
    if (minute % 10 === 0) device.sleep();
    const next = device.savedRows();
    writes += ['activity', 'series'].filter((name) => next[name] !== rows[name]).length;
    rows = next;
  }
  // Quarters, hours, the day, and what presence writes.
  expect(writes).toBeLessThanOrEqual(24 * 4 + 24 + 10);
});

it('has eight properties of a device, no text, and no number beyond all measure', () => {
  const device = onlineDevice(midnight);
  const many = Array.from({ length: 500 }, (_, index) => [`p${index}`, index] as const);
  report(device, { big: 1e300, text: 'on', ['__proto__x']: 1, ...Object.fromEntries(many) });
  report(device, Object.fromEntries(many.toReversed()));
  expect(new Set(device.state.samples.map(([name]) => name)).size).toBe(maxSeries);
  expect(unwrap(read(device, { property: 'big' })).list).toEqual([]);
  expect(unwrap(read(device, { property: 'p3' })).list).toHaveLength(1);
  device.wait(2 * dayMs);
  report(device, { other: 1 });
  expect(unwrap(read(device, { property: 'other' })).list).toHaveLength(1);
});

it('stays in its day, also if a report comes late, and is bounded whatever the times of reports', () => {
  const device = onlineDevice(midnight);
  report(device, { power: 1 });
  device.wait(dayMs);
  report(device, { power: 2 });
  report(device, { power: 3 }, midnight + hourMs);
  for (let back = 0; back < 2_000; back++) report(device, { power: back }, device.nowMs - (back % 1_440) * minuteMs);
  expect(device.state.samples.length + device.state.series.length).toBeLessThanOrEqual(100);
  expect(unwrap(read(device, { from: '2027-06-07', to: '2027-06-07' })).list).toHaveLength(1);
  expect(device.sampled.map(({ kind }) => kind)).toEqual(['quarters', 'hours']);
});

it('of several days that come at once, goes to each of them', () => {
  const device = onlineDevice(midnight);
  report(device, { power: 1 });
  const times = [1, 23, 25, 26, 50, 71, 73, 74.5].map((hour) => midnight + hour * hourMs);
  device.nowMs = midnight + 75 * hourMs;
  const plain = { action: topicActions.propertyPost, isDup: false, isSoleReader: false, isRetained: false };
  const messages = times.map((receivedAtMs, index) => {
    return { ...plain, seq: 100 + index, receivedAtMs, payload: JSON.stringify({ params: { power: index } }) };
  });
  const { productKey } = device;
  device.run({ kind: 'messages_received', productKey, spoolId: 'spool', messages });
  const { list } = unwrap(read(device, { step: 'hour' }));
  expect(list.map(({ at }) => at)).toEqual(
    [0, 1, 23, 25, 26, 50, 71, 73, 74].map((hour) => toIso(midnight + hour * hourMs)),
  );
  expect(unwrap(read(device, { step: 'day' })).list.map(({ count }) => count)).toEqual([3, 2, 2, 2]);
});

it('at most 400 points, and no day that is not kept', () => {
  const device = onlineDevice(midnight);
  device.wait(40 * dayMs);
  report(device, { power: 1 });
  const problem = (query: Partial<HistoryQuery>) => {
    const outcome = read(device, query);
    return outcome.ok ? null : (outcome.refusal as { problem: string }).problem;
  };
  expect(problem({ from: '2027-07-14', to: '2027-07-17' })).toBeNull();
  expect(problem({ from: '2027-07-13', to: '2027-07-17' })).toBe('at most 4 days at once with this step');
  expect(problem({ from: '2027-06-10', to: '2027-06-11' })).toBe('2027-06-18 is the first day that is kept');
  expect(problem({ step: 'hour', from: '2027-07-01', to: '2027-07-17' })).toContain('at most 16 days');
  expect(problem({ step: 'day', from: '2026-07-16', to: '2026-08-01' })).toContain('is the first day');
  expect(daysKept).toEqual({ day: 400, quarters: 30, hours: 365 });
});
