// Reading an item of a batch means what its schema says, whichever way it is read.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { uplinkItemSchema } from '../../../src/protocol/bridge.ts';
import { readItem } from '../../../src/services/broker/uplink-item.ts';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';

const plain = { seq: 1, topic: '/sys/p/d/status', payload: '{}', receivedAtMs: 0 };

it('is read as its schema says, whatever a member holds', () => {
  const anything = fc.oneof(
    fc.constantFrom(undefined, null, true, false, '', 'text', -1, 0, 1, 0.5, NaN, 2 ** 53, [], {}),
    fc.string({ maxLength: 1100, minLength: 1000 }),
  );
  const members = fc.record({
    seq: anything,
    topic: anything,
    payload: anything,
    payloadBase64: anything,
    dup: anything,
    retain: anything,
    receivedAtMs: anything,
  });
  const changes = fc.tuple(members, fc.subarray(Object.keys(plain).concat('payloadBase64', 'dup', 'retain')));
  fc.assert(
    fc.property(changes, ([values, changed]) => {
      const item = { ...plain, ...Object.fromEntries(changed.map((name) => [name, values[name as 'seq']])) };
      expect(readItem(item)).toEqual(uplinkItemSchema.safeParse(item).data);
    }),
    { numRuns: 2000, seed: fuzzSeed },
  );
});

it('is refused where it is no object', () => {
  for (const raw of [undefined, null, 1, 'text', [], [plain]]) expect(readItem(raw)).toBeUndefined();
});
