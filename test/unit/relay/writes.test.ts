// The order and the portions in which a relay shard writes to its sockets.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PushUnderWay, portionBytes, RelayWrites, type Write } from '../../../src/objects/relay/writes.ts';
import { readLimits } from '../../../src/limits.ts';

const limits = readLimits('relayUnreadBytesPerSocket=8388608,relayUnreadBytesPerShard=67108864');
const half = portionBytes / 2;

/** Frames are called by what was pushed; time goes on by `turn` alone. */
class Shard {
  readonly written: string[] = [];
  readonly late = new Set<string>();
  readonly full: string[] = [];
  onWrite: (socket: string) => void = () => undefined;
  #next: () => void = () => undefined;
  #end: Promise<void> = Promise.resolve();
  readonly writes = new RelayWrites<string>({
    limits,
    write: (socket, { frames }, isLate) => {
      for (const frame of frames) {
        this.written.push(`${socket}:${frame}`);
        if (isLate) this.late.add(`${socket}:${frame}`);
      }
      this.onWrite(socket);
    },
    endFull: (socket) => {
      this.full.push(socket);
      this.writes.forget(socket);
    },
    nextTurn: () => new Promise((resolve) => (this.#next = resolve)),
    inBackground: (work) => void (this.#end = work),
  });

  push(sockets: string, frame: string, bytes = half, deviceId = 'dev'): PushUnderWay {
    const push = this.writes.begin();
    const run = { deviceId, topic: 't', payloads: [], generations: [] };
    const write: Write = { frames: [frame], bytes, run, push };
    for (const socket of sockets) this.writes.push(socket, write);
    push.noteEnded();
    return push;
  }

  /** What was written in it. */
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
    const push = shard.push('abcde', '1');
    expect(shard.written).toEqual(['a:1', 'b:1']);
    expect(push.isWritten).toBe(false);
    expect(await shard.turn()).toEqual(['c:1', 'd:1']);
    expect(await shard.turn()).toEqual(['e:1']);
    expect(push.isWritten).toBe(true);
    await push.written;
    expect(shard.push('z', '2').isWritten).toBe(true);
    expect(shard.written.at(-1)).toBe('z:2');
  });

  it('that come meanwhile are written socket by socket, each with all of its own in a row', async () => {
    const shard = new Shard();
    const first = shard.push('abcd', '1');
    const second = shard.push('abcd', '2', 1);
    const third = shard.push('cd', '3', 1);
    expect(await shard.turn()).toEqual(['c:1', 'c:2', 'c:3', 'd:1']);
    expect(first.isWritten).toBe(true);
    expect(second.isWritten).toBe(false);
    await shard.untilWritten();
    expect(shard.written.slice(6)).toEqual(['d:2', 'd:3', 'a:2', 'b:2'].sort());
    expect([second.isWritten, third.isWritten]).toEqual([true, true]);
  });

  it('do not wait for a socket to which much goes', async () => {
    const shard = new Shard();
    shard.push('yza', '0');
    for (const frame of '123') shard.push('a', frame);
    shard.push('b', '1');
    expect(await shard.turn()).toEqual(['a:0', 'a:1']);
    expect(await shard.turn()).toEqual(['b:1', 'a:2']);
    expect(await shard.turn()).toEqual(['a:3']);
  });

  it('say of a write whether it has waited', async () => {
    const shard = new Shard();
    shard.push('abc', '1');
    await shard.untilWritten();
    expect([...shard.late]).toEqual(['c:1']);
  });
});

describe('an answer', () => {
  it('goes at once where nothing waits for its socket, and otherwise behind it', async () => {
    const shard = new Shard();
    shard.push('abc', '1');
    shard.writes.answer('a', { frames: ['yes'], bytes: 1 });
    shard.writes.answer('c', { frames: ['yes'], bytes: 1 });
    expect(shard.written.at(-1)).toBe('a:yes');
    expect(await shard.turn()).toEqual(['c:1', 'c:yes']);
  });
});

describe('what waits', () => {
  it('is dropped with its socket, also where writing ends that, and its push is over', async () => {
    const shard = new Shard();
    const first = shard.push('abcd', '1');
    const second = shard.push('d', '2', 1);
    shard.writes.forget('c');
    shard.onWrite = (socket) => shard.writes.forget(socket);
    expect(await shard.turn()).toEqual(['d:1']);
    expect([first.isWritten, second.isWritten]).toEqual([true, true]);
    expect(await shard.turn()).toEqual([]);
  });

  it('is dropped by device for the sockets that lost their right to it', async () => {
    const shard = new Shard();
    const lost = shard.push('abcd', '1');
    shard.push('cd', '2', 1, 'other');
    shard.writes.drop('dev', (socket) => socket === 'd');
    expect(await shard.turn()).toEqual(['c:1', 'c:2', 'd:2']);
    expect(lost.isWritten).toBe(true);
  });

  it('ends a socket for which it is too much', () => {
    const shard = new Shard();
    const limit = limits.relayUnreadBytesPerSocket;
    shard.push('yza', '0');
    shard.push('a', '1', limit - half);
    expect(shard.full).toEqual([]);
    const over = shard.push('ab', '2', 1);
    expect(shard.full).toEqual(['a']);
    expect(shard.written.at(-1)).toBe('b:2');
    expect(over.isWritten).toBe(true);
  });

  it('ends those with much of it where all sockets together have too much', () => {
    const shard = new Shard();
    shard.push('yz0', '0');
    const share = limits.relayUnreadBytesPerSocket - 1;
    for (const socket of 'abcdefgh') shard.push(socket, '1', share);
    shard.push('i', '1', share);
    expect(shard.full, 'it had nothing before').toEqual([]);
    shard.push('a', '2', 1);
    expect(shard.full).toEqual(['a']);
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
      const pushes: PushUnderWay[] = [];
      for (const [number, one] of steps.entries()) {
        if (one === 'turn') await shard.turn();
        else if ('answer' in one) {
          given.push(`${one.answer}:${number}`);
          shard.writes.answer(one.answer, { frames: [String(number)], bytes: 1 });
        } else {
          given.push(...one.to.map((to) => `${to}:${number}`));
          pushes.push(shard.push(one.to.join(''), String(number), one.bytes));
        }
      }
      await shard.untilWritten();
      await Promise.all(pushes.map(({ written }) => written));
      const ofEach = (lines: string[]) => Object.groupBy(lines, ([first]) => first ?? '');
      const kept = ofEach(given.filter((line) => !shard.full.includes(line[0] ?? '')));
      expect(ofEach(shard.written.filter((line) => !shard.full.includes(line[0] ?? '')))).toEqual(kept);
    }),
    { numRuns: 200 },
  );
});
