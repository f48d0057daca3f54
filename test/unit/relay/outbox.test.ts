// The order and the portions in which a relay shard sends to its sockets, and how much it holds for clients that do not read.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { limitsOf } from '../limits-of.ts';
import {
  bytesPerReadingCheck,
  Outbox,
  portionBytes,
  unreadLimits,
  type UnreadLimits,
} from '../../../src/objects/relay/outbox.ts';

const half = portionBytes / 2;
const kib = 1024;
const roomy = { perSocket: 32 * portionBytes, perAddress: 2 ** 40, perShard: 2 ** 40 };

/** Frames are called by what was pushed; time goes on by `turn` alone. Sockets are called by letters. */
class Shard {
  readonly written: string[] = [];
  readonly full: string[] = [];
  /** Sockets that lost their right to what waits for them. */
  readonly revoked = new Set<string>();
  readonly pings = new Map<string, string>();
  onWrite: (socket: string) => void = () => undefined;
  #next: () => void = () => undefined;
  #end: Promise<void> = Promise.resolve();
  readonly outbox: Outbox<string>;

  constructor(limits: UnreadLimits = roomy, addressOf = (socket: string) => socket) {
    this.outbox = new Outbox<string>(limits, this);
    for (const socket of 'abcdefghiz') this.outbox.open(socket, addressOf(socket));
  }

  send(socket: string, frame: string): void {
    const [, id] = /^{"action":"ping","id":"(.*)"}$/.exec(frame) ?? [];
    if (id !== undefined) this.pings.set(socket, id);
    else this.written.push(`${socket}:${frame}`);
    this.onWrite(socket);
  }

  mayHave(socket: string): boolean {
    return !this.revoked.has(socket);
  }

  endUnread(socket: string): void {
    this.full.push(socket);
    this.outbox.end(socket);
  }

  nextTurn(): Promise<void> {
    return new Promise((resolve) => (this.#next = resolve));
  }

  inBackground(work: Promise<void>): void {
    this.#end = work;
  }

  /** Answers the shard's ping. */
  pong(socket: string, id = this.pings.get(socket)): boolean {
    return this.outbox.takePong(socket, JSON.stringify({ action: 'pong', id }));
  }

  push(sockets: string, frame: string, bytes = half, deviceId = 'dev'): void {
    this.outbox.beginPush();
    const run = { deviceId, topic: 't', payloads: [], generations: [] };
    for (const socket of sockets) this.outbox.push(socket, { frames: [frame], bytes, run });
  }

  /** Ends one turn of the outbox: the frames that were written in it. */
  async turn(): Promise<string[]> {
    const before = this.written.length;
    this.#next();
    await new Promise((resolve) => setImmediate(resolve));
    return this.written.slice(before);
  }

  async untilWritten(): Promise<void> {
    for (let turns = 0; turns < 100 && (await this.turn()).length > 0; turns += 1);
    await this.#end;
  }
}

describe('pushes of a shard', () => {
  it('go at once up to a portion, and the rest in turns of a portion each', async () => {
    const shard = new Shard();
    shard.push('abcde', '1');
    const { written } = shard.outbox;
    expect(shard.written).toEqual(['a:1', 'b:1']);
    expect(written).toBeDefined();
    expect(await shard.turn()).toEqual(['c:1', 'd:1']);
    expect(await shard.turn()).toEqual(['e:1']);
    await written;
    shard.push('z', '2');
    expect(shard.outbox.written).toBeUndefined();
    expect(shard.written.at(-1)).toBe('z:2');
  });

  it('do not wait for a socket to which much goes', async () => {
    const shard = new Shard();
    shard.push('bza', '0');
    for (const frame of '123') shard.push('a', frame);
    shard.push('b', '1');
    expect(await shard.turn()).toEqual(['a:0', 'a:1']);
    expect(await shard.turn()).toEqual(['b:1', 'a:2']);
    expect(await shard.turn()).toEqual(['a:3']);
  });
});

it('an answer goes at once where nothing waits for its socket, and otherwise behind it', async () => {
  const shard = new Shard();
  shard.push('abc', '1');
  shard.outbox.answer('a', ['yes']);
  shard.outbox.answer('c', ['yes']);
  expect(shard.written.at(-1)).toBe('a:yes');
  expect(await shard.turn()).toEqual(['c:1', 'c:yes']);
});

describe('what waits', () => {
  it('is dropped with its socket, also where writing ends that, and its push is over', async () => {
    const shard = new Shard();
    shard.push('abcd', '1');
    shard.push('d', '2', 1);
    const { written } = shard.outbox;
    shard.outbox.remove('c');
    shard.onWrite = (socket) => shard.outbox.end(socket);
    expect(await shard.turn()).toEqual(['d:1']);
    await written;
    expect(shard.outbox.written).toBeUndefined();
    expect(await shard.turn()).toEqual([]);
  });

  it('ends a socket for which it is too much', () => {
    const shard = new Shard();
    shard.push('bcz', '0');
    shard.push('a', '1', roomy.perSocket - half);
    shard.push('a', '2', half);
    expect(shard.full).toEqual([]);
    shard.push('ab', '3', 1);
    expect(shard.full).toEqual(['a']);
    expect(shard.outbox.written).toBeDefined();
    expect(shard.outbox.takePong('b', 'no pong')).toBe(false);
  });
});

describe('bytes that a client has not shown to have read', () => {
  const limits = { perSocket: 256 * kib, perAddress: 2 ** 40, perShard: 2 ** 40 };
  const sendTo = (shard: Shard, socket: string, bytes: number) => {
    shard.push(socket, 'x', bytes);
    return shard.full.includes(socket);
  };

  it('are limited for each socket, and read ones do not count', () => {
    const shard = new Shard(limits);
    expect(sendTo(shard, 'a', 200 * kib)).toBe(false);
    expect(sendTo(shard, 'a', 56 * kib)).toBe(false);
    expect(shard.pong('a')).toBe(true);
    expect(sendTo(shard, 'a', 200 * kib), 'what was sent after the ping is still unread').toBe(false);
    expect(sendTo(shard, 'a', 1)).toBe(true);
    expect(sendTo(shard, 'b', 1)).toBe(false);
  });

  it('may be more at once than the limit, because a client that reads everything has not had the time', () => {
    const shard = new Shard(limits);
    expect(sendTo(shard, 'a', 1024 * kib)).toBe(false);
    expect(sendTo(shard, 'a', 1)).toBe(true);
  });

  it('are asked about once they are enough, one question at a time, and a guess answers none', () => {
    const shard = new Shard();
    sendTo(shard, 'a', bytesPerReadingCheck - 1);
    expect(shard.pings.size).toBe(0);
    sendTo(shard, 'a', 1);
    const id = shard.pings.get('a');
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    sendTo(shard, 'a', bytesPerReadingCheck);
    expect(shard.pings.get('a')).toBe(id);
    expect(shard.pong('a', crypto.randomUUID())).toBe(false);
    expect(shard.pong('a', id)).toBe(true);
    expect(shard.pings.get('a'), 'about what was sent meanwhile').not.toBe(id);
    expect(shard.pong('a', id), 'a pong counts once').toBe(false);
  });

  it.each([
    ['address', { perAddress: 512 * kib }, () => 'home'],
    ['shard', { perShard: 512 * kib }, (socket: string) => socket],
  ])('are limited for each %s, at the cost of those alone who do not read', (_, limit, addressOf) => {
    const shard = new Shard({ ...roomy, ...limit }, addressOf);
    sendTo(shard, 'a', 380 * kib);
    shard.outbox.end('a');
    expect(sendTo(shard, 'b', 130 * kib)).toBe(false);
    for (let round = 0; round < 20; round++) {
      expect(sendTo(shard, 'c', 100 * kib)).toBe(false);
      expect(shard.pong('c')).toBe(true);
    }
    expect(sendTo(shard, 'b', 3 * kib)).toBe(true);
    shard.outbox.remove('a');
    expect(sendTo(shard, 'd', 300 * kib)).toBe(false);
    expect(sendTo(shard, 'd', 1), 'the connection is gone, and what it held with it').toBe(false);
  });

  it('are bounded by relayUnreadBytesPerSocket, and in all by half of the memory of an object', () => {
    const mib = 1024 * kib;
    const set = (text: string) => unreadLimits(limitsOf(text));
    expect(set('relayUnreadBytesPerSocket=1048576')).toEqual({
      perSocket: mib,
      perAddress: 4 * mib,
      perShard: 12 * mib,
    });
    expect(set('relayUnreadBytesPerSocket=33554432').perShard).toBe(64 * mib);
  });
});

it('keeps the order of every socket and ends every push, whatever comes when', async () => {
  const socket = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ to: fc.uniqueArray(socket), bytes: fc.integer({ min: 1, max: portionBytes }) }),
    },
    { weight: 1, arbitrary: fc.record({ answer: socket }) },
    { weight: 2, arbitrary: fc.constant('turn' as const) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const shard = new Shard();
      const given: string[] = [];
      for (const [number, one] of steps.entries()) {
        if (one === 'turn') await shard.turn();
        else if ('answer' in one) {
          given.push(`${one.answer}:${number}`);
          shard.outbox.answer(one.answer, [String(number)]);
        } else {
          given.push(...one.to.map((to) => `${to}:${number}`));
          shard.push(one.to.join(''), String(number), one.bytes);
        }
      }
      await shard.untilWritten();
      expect(shard.outbox.written).toBeUndefined();
      const ofEach = (lines: string[]) => Object.groupBy(lines, ([first]) => first ?? '');
      const kept = ofEach(given.filter((line) => !shard.full.includes(line[0] ?? '')));
      expect(ofEach(shard.written.filter((line) => !shard.full.includes(line[0] ?? '')))).toEqual(kept);
    }),
    { numRuns: 200 },
  );
});
