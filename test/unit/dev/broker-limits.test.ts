// The settings of the local broker's limits: what is written is read or refused with its name, and the page lists each.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { brokerLimitDefaults, readBrokerLimits } from '../../../dev/broker/limits.ts';

const page = readFileSync(new URL('../../../docs/limits.md', import.meta.url), 'utf8');

it('keeps the default of what is not named', () => {
  expect(readBrokerLimits('')).toEqual(brokerLimitDefaults);
  expect(readBrokerLimits(' connections=3 ,')).toEqual({ ...brokerLimitDefaults, connections: 3 });
});

it.each([
  ['sockets=3', /no limit "sockets"/],
  ['toString=3', /no limit "toString"/],
  ['connections', /connections is a whole number from 1/],
  ['connections=0', /whole number/],
  ['connections=-1', /whole number/],
  ['connections=1e3', /whole number/],
])('refuses %s with its name', (text, reason) => {
  expect(() => readBrokerLimits(text)).toThrow(reason);
});

it('stands on its page with its defaults', () => {
  const section = page.slice(page.indexOf('## Local broker'), page.indexOf('## Local run'));
  const rows = [...section.matchAll(/^\| `(\w+=\d+)` /gm)].map(([, row]) => row);
  expect(rows.toSorted()).toEqual(
    Object.entries(brokerLimitDefaults)
      .map((entry) => entry.join('='))
      .toSorted(),
  );
});
