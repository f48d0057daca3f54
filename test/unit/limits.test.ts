// The settings of limits: what an operator writes is read or refused with its name, and the page lists every limit.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { limitSpecs, limitsSchema } from '../../src/limits.ts';

const page = readFileSync(new URL('../../docs/limits.md', import.meta.url), 'utf8');

describe('limits', () => {
  it('keeps the default of what is not named', () => {
    expect(limitsSchema.parse('').apiKeysPerUser).toBe(limitSpecs.apiKeysPerUser.default);
    expect(limitsSchema.parse(' apiKeysPerUser=3 ,').apiKeysPerUser).toBe(3);
  });

  it.each([
    ['apiKeys=3', /no limit "apiKeys"/],
    ['toString=3', /no limit "toString"/],
    ['apiKeysPerUser', /whole number from 1 to 1000/],
    ['apiKeysPerUser=-1', /whole number/],
    ['apiKeysPerUser=0', /whole number/],
    ['apiKeysPerUser=1e2', /whole number/],
  ])('refuses %s with its name', (text, reason) => {
    expect(limitsSchema.safeParse(text).error?.issues[0]?.message).toMatch(reason);
  });

  it('stand on their page with their defaults, each once', () => {
    const rows = [...page.matchAll(/^\| `(\w+)` +\| ([\d ]+?) +\|/gm)];
    const listed = rows.map(([, name, value]) => [name, Number(value?.replaceAll(' ', ''))]);
    const known = Object.entries(limitSpecs).map(([name, spec]) => [name, spec.default]);
    expect(listed.toSorted()).toEqual(known.toSorted());
  });
});
