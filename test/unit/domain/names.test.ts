// Which names are one and the same.
import { expect, it } from 'vitest';
import { foldName } from '../../../src/domain/names.ts';

it('takes names for the same that differ in case, outer space or composition', () => {
  for (const [one, other] of [
    ['Ada@Example.test', ' ada@example.TEST '],
    ['Ævar Ö', 'ævar o\u0308'],
    ['ＡＤＡ', 'ada'],
  ] as const) {
    expect(foldName(one)).toBe(foldName(other));
  }
});

it('keeps names apart that differ otherwise', () => {
  const names = ['ada', 'adá', 'a.da', 'a da', 'ada1'];
  expect(new Set(names.map(foldName)).size).toBe(names.length);
});
