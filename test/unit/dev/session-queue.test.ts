// How much waits for a persistent session at the local broker. What happens then is in system/local-broker-sessions.
import { expect, it } from 'vitest';
import { readBrokerLimits } from '../../../dev/broker/limits.ts';
import { SessionQueue } from '../../../dev/broker/session-queue.ts';

it.each([
  ['queuedMessages=3', 3],
  ['queuedBytes=50', 5],
])('no more waits for a session than %s lets', (text, max) => {
  const limits = readBrokerLimits(text);
  const queue = new SessionQueue({ messages: limits.queuedMessages, bytes: limits.queuedBytes }, () => true);
  const message = { topic: 'topic', payload: 'bytes', qos: 1, retain: false } as const;
  const taken = Array.from({ length: 10 }, () => queue.add(message));
  expect(taken.filter(Boolean)).toHaveLength(max);
  expect(queue.waiting).toBe(max);
});
