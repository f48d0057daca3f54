// Which messages had their effect before: high-water marks, redeliveries of the broker, and first deliveries that come
// late.
import { describe, expect, it } from 'vitest';
import {
  deduplicationSlice,
  hasFailed,
  isAtOrBelow,
  isRedelivery,
  noteFailed,
  noteNew,
  noteRedelivery,
  type Delivery,
} from '../../../src/domain/device/messages/deduplication.ts';
import { fingerprint } from '../../../src/domain/fingerprint.ts';

function delivery(seq: number, content: string, fields: Partial<Delivery> = {}): Delivery {
  const plain = { spoolId: 'spool', isDup: false, redeliveryOf: undefined, isSoleReader: false, receivedAtMs: 1000 };
  return { ...plain, seq, fingerprint: fingerprint(content), ...fields };
}

function taken(...deliveries: Delivery[]) {
  return deliveries.reduce(noteNew, deduplicationSlice.initial);
}

describe('the high-water mark', () => {
  it('covers every number of a spool up to the highest', () => {
    const { marks } = taken(delivery(7, 'x'));
    expect(isAtOrBelow(marks, 'spool', 7)).toBe(true);
    expect(isAtOrBelow(marks, 'spool', 1)).toBe(true);
    expect(isAtOrBelow(marks, 'spool', 8)).toBe(false);
  });

  it('is one for each spool, because each numbers from one', () => {
    expect(isAtOrBelow(taken(delivery(7, 'x')).marks, 'other', 1)).toBe(false);
  });

  it('of the spool that was used least recently is forgotten when there are more than eight', () => {
    const first = Array.from({ length: 8 }, (_, number) => delivery(5, 'x', { spoolId: `spool-${number}` }));
    const { marks } = taken(
      ...first,
      delivery(6, 'x', { spoolId: 'spool-0' }),
      delivery(5, 'x', { spoolId: 'spool-8' }),
    );
    expect(isAtOrBelow(marks, 'spool-0', 6)).toBe(true);
    expect(isAtOrBelow(marks, 'spool-1', 5)).toBe(false);
  });

  it('covers a message whose handling failed, which stays known as failed', () => {
    const slice = noteFailed(deduplicationSlice.initial, 'spool', 3);
    expect(isAtOrBelow(slice.marks, 'spool', 3)).toBe(true);
    expect(hasFailed(slice, 'spool', 3)).toBe(true);
    expect(hasFailed(slice, 'spool', 2)).toBe(false);
  });
});

describe('a message that the broker sends again', () => {
  it('is a redelivery where its spool had the same delivery before', () => {
    const slice = taken(delivery(1, 'x'));
    expect(isRedelivery(slice, delivery(2, 'x', { isDup: true, redeliveryOf: 1 }))).toBe(true);
    expect(
      isRedelivery(deduplicationSlice.initial, delivery(2, 'x', { isDup: true, redeliveryOf: 1 })),
      'its mark was lost',
    ).toBe(true);
  });

  it('is new where no other client can have read the session, even in the same words', () => {
    const slice = taken(delivery(1, 'up'), delivery(2, 'down'));
    expect(isRedelivery(slice, delivery(3, 'up', { isDup: true, isSoleReader: true }))).toBe(false);
  });

  it('is told by its content among the last 64 messages where another bridge may have brought it', () => {
    const slice = taken(...Array.from({ length: 65 }, (_, number) => delivery(number + 1, `text ${number}`)));
    expect(isRedelivery(slice, delivery(66, 'text 1', { isDup: true }))).toBe(true);
    expect(isRedelivery(slice, delivery(66, 'text 0', { isDup: true })), 'the 65th last').toBe(false);
  });

  it('leaves the content where it stands, so that all of the last 64 are known while they are read again', () => {
    let slice = taken(...Array.from({ length: 80 }, (_, number) => delivery(number + 1, `text ${number}`)));
    for (let number = 16; number < 80; number++) {
      const again = delivery(number, `text ${number}`, { spoolId: 'second', isDup: true });
      expect(isRedelivery(slice, again), String(again.seq)).toBe(true);
      slice = noteRedelivery(slice, again);
    }
  });
});

describe('a first delivery', () => {
  const brought = taken(
    delivery(1, 'x', { spoolId: 'b', isDup: true, receivedAtMs: 2000 }),
    delivery(2, 'y', { spoolId: 'b' }),
  );

  it('is a redelivery where another bridge has brought the message since', () => {
    expect(isRedelivery(brought, delivery(1, 'x', { spoolId: 'a' }))).toBe(true);
    expect(isRedelivery(brought, delivery(1, 'x', { spoolId: 'a', receivedAtMs: 2500 })), 'clocks differ').toBe(true);
  });

  it('is new where it was received later, by the same bridge, or was not delivered again', () => {
    expect(isRedelivery(brought, delivery(1, 'x', { spoolId: 'a', receivedAtMs: 15_000 }))).toBe(false);
    expect(isRedelivery(brought, delivery(3, 'x', { spoolId: 'b' }))).toBe(false);
    expect(isRedelivery(brought, delivery(1, 'y', { spoolId: 'a' }))).toBe(false);
  });
});
