// What a run says of itself: held only where nothing failed, in the attacks and in the generated input alike.
import { expect, it } from 'vitest';
import { verdictOf } from './rig/table.ts';

const held = { failures: [] };
const notHeld = { failures: ['bystander: status p95 from 5.0 to 50.0 ms'] };
const wrong = { problems: ['GET /api/v1/devices: 500 internal_error'] };

it('a run held where every attack did and every generated input was answered as it must be', () => {
  expect(verdictOf([held, held], { problems: [] })).toEqual({ hasHeld: true, text: 'Everything held' });
  expect(verdictOf([held], undefined).hasHeld).toBe(true);
});

it('a run with one attack or one generated input that did not hold has not', () => {
  expect(verdictOf([held, notHeld], undefined)).toEqual({ hasHeld: false, text: '1 of 2 attacks did not hold' });
  expect(verdictOf([held], wrong)).toEqual({ hasHeld: false, text: 'generated input was answered wrongly' });
  expect(verdictOf([notHeld], wrong).text).toBe(
    '1 of 1 attacks did not hold, and generated input was answered wrongly',
  );
});
