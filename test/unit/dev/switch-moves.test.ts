// The switch of the virtual devices moves as the contract says of each control parameter.
import { expect, test } from 'vitest';
import { moveSwitch } from '../../../console/src/switch/moves.ts';

test('the switch knows every control parameter of the contract', () => {
  const from = { position: 'up', angle: 180 } as const;
  const cases: [Record<string, unknown>, ReturnType<typeof moveSwitch>][] = [
    [{ action: 'toggle', position: 'middle' }, { state: { position: 'middle', angle: 90 } }],
    [{ action: 'toggle' }, { state: { position: 'middle', angle: 90 } }],
    [
      { action: 'pulse', duration: 1200 },
      { state: { position: 'down', angle: 0 }, backAfterMs: 1200 },
    ],
    [{ action: 'pulse' }, { state: { position: 'down', angle: 0 }, backAfterMs: 500 }],
    [{ action: 'trigger' }, { state: from }],
    [{ switch: true }, { state: from }],
    [{ switch: false }, { state: { position: 'down', angle: 0 } }],
    [{ angle: 60 }, { state: { position: 'middle', angle: 60 } }],
    [{ switch: true, angle: 10 }, { state: { position: 'down', angle: 10 } }],
    [{ dance: 1 }, undefined],
  ];
  for (const [params, expected] of cases) expect(moveSwitch(from, params)).toEqual(expected);
  // A pulse always shows: it presses towards the side where the switch is not.
  expect(moveSwitch({ position: 'down', angle: 0 }, { action: 'pulse' })?.state).toEqual(from);
});
