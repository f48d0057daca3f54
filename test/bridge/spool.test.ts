// The spool on its own: what it promises about order, restarts, damage, a full spool and a disk that refuses.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { makeSpoolDir } from '../../rig/services/processes.ts';
import { messageOf, OpenSpool, type SpoolOptions } from '../../rig/services/open-spool.ts';

function delivery(packetId: number, payload: string, dup = false): { packetId: number; payload: Buffer; dup: boolean } {
  return { packetId, payload: Buffer.from(payload), dup };
}

const open: OpenSpool[] = [];
async function openSpool(dir: string, options: SpoolOptions = {}): Promise<OpenSpool> {
  const one = await OpenSpool.open(dir, options);
  open.push(one);
  return one;
}
async function closeAll(): Promise<void> {
  for (const one of open.splice(0)) await one.spool.close();
}
afterEach(closeAll);

async function reopen(dir: string, options: SpoolOptions = {}): Promise<OpenSpool> {
  await closeAll();
  return openSpool(dir, options);
}

describe('order and restarts', () => {
  test('messages are committed and handed out in the order of their arrival', async () => {
    const spool = await openSpool(makeSpoolDir());
    const payloads = Array.from({ length: 500 }, (_, n) => `m${n}`);
    await spool.addAndWait(...payloads);
    await spool.untilItems(500);
    expect(spool.committed).toEqual(payloads);
    expect(spool.payloads).toEqual(payloads);
    expect(spool.items.map((item) => item.seq)).toEqual(payloads.map((_, n) => n + 1));
  });

  test('what was not done is there after a restart under the same name and numbers, what was done is not', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a', 'b', 'c', 'd');
    first.spool.append({ ...messageOf('e'), retain: true, dup: true, soleReader: true, redeliveryOf: 2 }, null, () =>
      first.add('f'),
    );
    await first.untilItems(6);
    first.finish('b', 'd');
    const second = await reopen(dir);
    await second.untilItems(4);
    expect(second.items).toEqual(first.items.filter(({ seq }) => seq !== 2 && seq !== 4));
    expect(second.spool.spoolId).toBe(first.spool.spoolId);
    expect(second.spool.depth).toBe(4);
    await second.addAndWait('g');
    await second.untilItems(5);
    expect(second.items[4]!.seq).toBeGreaterThan(6);
  });

  test('numbers go on under the same name after everything was done', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a', 'b');
    await first.untilItems(2);
    first.finish('a', 'b');
    const second = await reopen(dir);
    expect(second.spool.depth).toBe(0);
    await second.addAndWait('c');
    await second.untilItems(1);
    expect(second.spool.spoolId).toBe(first.spool.spoolId);
    expect(second.items[0]!.seq).toBeGreaterThan(2);
  });

  test('a folder restored from an older copy gives no number to a new message that was used before', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a');
    const copy = makeSpoolDir();
    cpSync(dir, copy, { recursive: true });
    await first.addAndWait('b', 'c');
    await first.untilItems(3);
    const restored = await openSpool(copy);
    await restored.addAndWait('d');
    await restored.untilItems(2);
    expect(restored.items[1]!.seq).toBeGreaterThan(first.items[2]!.seq);
  });

  test('a folder of another bridge is a new spool when it is empty, and refused when it holds messages', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a');
    await closeAll();
    await expect(openSpool(dir, { bridgeId: 'bridge-2' })).rejects.toThrow(
      'the spool holds 1 unsent messages of the bridge bridge-1: start it as BRIDGE_ID=bridge-1',
    );
    const again = await openSpool(dir);
    await again.untilItems(1);
    again.finish('a');
    const second = await reopen(dir, { bridgeId: 'bridge-2' });
    expect(second.spool.spoolId).toMatch(/^bridge-2-[0-9a-f]{16}$/);
  });

  test('a backlog larger than the reader’s share comes from the disk, whole and in order', async () => {
    const count = 45_000;
    const spool = await openSpool(makeSpoolDir(), { maxBytes: 100_000_000 });
    await spool.addAndWait(...Array.from({ length: count }, (_, n) => `m${n}`));
    expect(spool.items.length).toBeLessThan(count);
    await spool.finishAll(count);
    expect(spool.payloads.every((payload, n) => payload === `m${n}`)).toBe(true);
    expect(spool.spool.depth).toBe(0);
  });
});

describe('redeliveries', () => {
  test('one of the same broker session is told with the number of the first, also after a restart', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.receive(delivery(1, 'a'), delivery(2, 'b'), delivery(1, 'a', true), delivery(2, 'other', true));
    await first.untilItems(4);
    expect(first.items.map(({ dup, redeliveryOf }) => [dup, redeliveryOf])).toEqual([
      [false, null],
      [false, null],
      [true, 1],
      [true, null],
    ]);
    for (const item of first.items) first.spool.markDone(item);
    const second = await reopen(dir);
    await second.receive(delivery(1, 'a', true), delivery(2, 'other', true), delivery(2, 'b', true), delivery(1, 'a'));
    await second.untilItems(4);
    expect(second.items.map(({ redeliveryOf }) => redeliveryOf)).toEqual([1, 4, null, null]);
  });

  test('as many as MQTT can have under way are known after a restart', async () => {
    const dir = makeSpoolDir();
    const numbers = Array.from({ length: 70_000 }, (_, n) => n);
    const first = await openSpool(dir, { maxBytes: 1e8 });
    await first.receive(...numbers.map((n) => delivery((n % 65_535) + 1, `m${n}`)));
    const second = await reopen(dir, { maxBytes: 1e8 });
    await second.receive(...[4463, 4465, 69_999].map((n) => delivery((n % 65_535) + 1, `m${n}`, true)));
    expect(second.spool.depth).toBe(70_003);
    await second.finishAll(70_003);
    expect(second.items.slice(-3).map(({ redeliveryOf }) => redeliveryOf)).toEqual([null, 4466, 70_000]);
  });

  test('a new broker session numbers its messages anew, which is not forgotten by a restart either', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.receive(delivery(1, 'a'), delivery(2, 'b'));
    first.intake.noteSession(false, true);
    await first.receive(delivery(2, 'b', true));
    const second = await reopen(dir);
    await second.receive(delivery(1, 'a', true), delivery(2, 'b', true));
    await second.untilItems(5);
    expect(second.items.map(({ redeliveryOf }) => redeliveryOf)).toEqual([null, null, null, null, 3]);
  });

  test('whether nobody else can have read from the session is told with them', async () => {
    const spool = await openSpool(makeSpoolDir());
    spool.intake.noteSession(true, true);
    await spool.receive(delivery(1, 'a', true));
    await spool.receive(delivery(2, 'b'), delivery(3, 'c', true));
    spool.intake.noteOtherBridge();
    spool.intake.noteSession(true, true);
    await spool.receive(delivery(4, 'd', true));
    spool.intake.noteSession(false, false);
    await spool.receive(delivery(5, 'e', true));
    spool.intake.noteSession(false, true);
    await spool.receive(delivery(6, 'f', true));
    await spool.untilItems(6);
    expect(spool.items.map(({ soleReader }) => soleReader)).toEqual([false, false, true, false, false, true]);
  });
});

describe('a folder that must not be used', () => {
  test('one that another bridge uses is refused until that has gone, however it goes', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await expect(openSpool(dir)).rejects.toThrow('SPOOL_DIR is in use by another bridge');
    await first.addAndWait('a');
    const second = await reopen(dir);
    await second.untilItems(1);
  });

  async function leaveSpool(): Promise<string> {
    const dir = makeSpoolDir();
    const spool = await openSpool(dir, { maxBytes: 1e7 });
    await spool.addAndWait(...Array.from({ length: 300 }, (_, n) => `m${n}`.padEnd(200, '.')));
    await closeAll();
    return dir;
  }

  test.each([
    ['is no database any more', (path: string) => writeFileSync(path, Buffer.alloc(20_000, 0xb5))],
    ['was cut in two', (path: string) => truncateSync(path, Math.floor(readFileSync(path).length / 8192) * 4096)],
    [
      'is rotten inside',
      (path: string) => {
        const bytes = readFileSync(path);
        for (let page = 2; page * 4096 < bytes.length; page += 1) bytes.fill(0xa5, page * 4096, page * 4096 + 64);
        writeFileSync(path, bytes);
      },
    ],
  ])('one whose database %s is refused and left alone, and the refusal says what to do', async (_, damage) => {
    const dir = await leaveSpool();
    const path = join(dir, 'spool.sqlite');
    damage(path);
    const before = readFileSync(path);
    await expect(openSpool(dir)).rejects.toThrow(
      /the spool .*spool\.sqlite is damaged \(.*\), and may hold unsent messages: copy it .*, then remove the originals/,
    );
    expect(readFileSync(path)).toEqual(before);
    for (const name of readdirSync(dir)) rmSync(join(dir, name));
    await openSpool(dir);
  });

  test('one whose database cannot be opened is refused with what to do', async () => {
    const dir = makeSpoolDir();
    mkdirSync(join(dir, 'spool.sqlite'));
    await expect(openSpool(dir)).rejects.toThrow(/spool\.sqlite cannot be opened .*: see to it that this process can/);
  });
});

describe('limits', () => {
  const big = (name: string): string => name.padEnd(10_000, '.');

  test('a full spool commits nothing more, keeps the order, and goes on when there is room', async () => {
    const spool = await openSpool(makeSpoolDir(), { maxBytes: 262_144 });
    const payloads = Array.from({ length: 40 }, (_, n) => big(`m${n}`));
    spool.add(...payloads);
    await spool.changes.until('full', () => spool.spool.isFull());
    expect(spool.spool.bytes).toBeLessThanOrEqual(262_144);
    expect(spool.committed.length).toBe(25);
    expect(spool.spool.pendingCount()).toBe(15);
    spool.finish(...payloads.slice(0, 20));
    await spool.changes.until('the rest', () => spool.committed.length === 40);
    await spool.untilItems(40);
    expect(spool.committed).toEqual(payloads);
    expect(spool.payloads).toEqual(payloads);
    expect(spool.spool.isFull()).toBe(false);
  });

  test('messages that are never done do not hold the space of others', async () => {
    const dir = makeSpoolDir();
    const spool = await openSpool(dir, { maxBytes: 262_144 });
    for (let round = 0; round < 60; round += 1) {
      await spool.addAndWait(`stuck${round}`, big(`a${round}`), big(`b${round}`));
      await spool.untilItems((round + 1) * 3);
      spool.finish(big(`a${round}`), big(`b${round}`));
    }
    const again = await reopen(dir, { maxBytes: 262_144 });
    await again.untilItems(60);
    expect(again.payloads).toEqual(Array.from({ length: 60 }, (_, n) => `stuck${n}`));
    await closeAll();
    expect(readFileSync(join(dir, 'spool.sqlite')).length).toBeLessThan(262_144);
  });

  test('a message larger than the whole spool passes when the spool is empty', async () => {
    const spool = await openSpool(makeSpoolDir(), { maxBytes: 262_144 });
    const huge = 'x'.repeat(500_000);
    spool.add(huge, 'after');
    await spool.untilItems(1);
    expect(spool.committed).toEqual([huge]);
    spool.finish(huge);
    await spool.untilItems(2);
  });

  test('when too much waits for the disk the caller is told to stop reading, and when to go on', async () => {
    const spool = await openSpool(makeSpoolDir(), { maxBytes: 262_144 });
    const reading = { isAllowed: false };
    spool.add(...Array.from({ length: 20 }, (_, n) => `${n}`.padEnd(1_000_000, '.')));
    spool.spool.whenRoomInMemory(() => {
      reading.isAllowed = true;
      spool.changes.note();
    });
    expect(reading.isAllowed).toBe(false);
    for (let n = 0; n < 20 && !reading.isAllowed; n += 1) {
      await spool.changes.until('an item', () => spool.items.length > n);
      spool.spool.markDone(spool.items[n]!);
    }
    await spool.changes.until('reading again', () => reading.isAllowed);
  });
});
