// When packets are taken at once and when together. Time is faked; the order of frames and timers in the real runtime is
// in test/worker/direct/direct-frames.test.ts.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { PacketGathering } from '../../../src/objects/mqtt/packet-gathering.ts';

const gatherMs = 7;

class Device {
  readonly #gathering = new PacketGathering();
  #waiting = 0;
  /** How many messages each acknowledgement was for. */
  readonly taken: number[] = [];

  send(): void {
    this.#waiting += 1;
    this.#come('message');
  }

  acknowledge(): void {
    this.#come('delivery');
  }

  ping(): void {
    this.#come('other');
  }

  #come(first: 'message' | 'delivery' | 'other'): void {
    this.#gathering.come(first, gatherMs, () => {
      const messages = this.#waiting;
      this.#waiting = 0;
      this.taken.push(messages);
      return messages;
    });
  }
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('that waits for each acknowledgement are taken one by one, at once', () => {
  const device = new Device();
  for (let sent = 1; sent <= 5; sent += 1) {
    device.send();
    expect(device.taken).toHaveLength(sent);
    vi.advanceTimersByTime(1);
  }
  expect(device.taken).toEqual([1, 1, 1, 1, 1]);
});

it('that answer a command with a reply and a report are taken at once, both, command after command', () => {
  const device = new Device();
  for (let command = 1; command <= 3; command += 1) {
    device.send();
    device.send();
    expect(device.taken).toHaveLength(2 * command);
    vi.advanceTimersByTime(1);
  }
  expect(device.taken).toEqual([1, 1, 1, 1, 1, 1]);
});

it('that waits for none are taken together from the third on', () => {
  const device = new Device();
  for (let sent = 1; sent <= 10; sent += 1) device.send();
  expect(device.taken).toEqual([1, 1]);
  vi.advanceTimersByTime(gatherMs - 1);
  expect(device.taken).toEqual([1, 1]);
  vi.advanceTimersByTime(1);
  expect(device.taken).toEqual([1, 1, 8]);
  for (let sent = 1; sent <= 10; sent += 1) device.send();
  vi.advanceTimersByTime(gatherMs);
  expect(device.taken).toEqual([1, 1, 8, 10]);
});

it('that waits again are taken at once again, after one that was held back', () => {
  const device = new Device();
  for (let sent = 1; sent <= 10; sent += 1) device.send();
  vi.advanceTimersByTime(gatherMs);
  device.send();
  expect(device.taken).toEqual([1, 1, 8]);
  vi.advanceTimersByTime(gatherMs);
  expect(device.taken).toEqual([1, 1, 8, 1]);
  device.send();
  expect(device.taken).toEqual([1, 1, 8, 1, 1]);
});

it('that answer a command behind a report hold back no report that follows', () => {
  const device = new Device();
  device.send();
  device.ping();
  vi.advanceTimersByTime(1);
  device.send();
  expect(device.taken).toEqual([1, 0, 1]);
});

it('that acknowledge a command are taken with the reply behind them, which waits for nothing', () => {
  const device = new Device();
  for (let command = 1; command <= 3; command += 1) {
    device.acknowledge();
    vi.advanceTimersByTime(1);
    device.send();
    device.send();
    expect(device.taken).toHaveLength(2 * command);
    vi.advanceTimersByTime(gatherMs);
  }
  expect(device.taken).toEqual([1, 1, 1, 1, 1, 1]);
});

it('that acknowledge a command are taken without a reply after a while, however many follow each other', () => {
  const device = new Device();
  device.acknowledge();
  vi.advanceTimersByTime(gatherMs - 1);
  expect(device.taken).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(device.taken).toEqual([0]);
  device.acknowledge();
  device.acknowledge();
  expect(device.taken).toEqual([0, 0]);
  vi.advanceTimersByTime(gatherMs);
  expect(device.taken).toEqual([0, 0]);
});
