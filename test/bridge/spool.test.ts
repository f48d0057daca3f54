// The spool on its own: what it promises about order, restarts, damage and a full disk.
import {
  appendFileSync,
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { Intake } from '../../broker-bridge/src/intake.ts';
import { createMetrics } from '../../broker-bridge/src/metrics.ts';
import type { MqttConnection } from '../../broker-bridge/src/mqtt-connection.ts';
import { Spool, type SpoolItem, type SpooledMessage } from '../../broker-bridge/src/spool.ts';
import type { Log } from '../../broker-bridge/src/log.ts';
import { Changes } from '../rig/changes.ts';
import { makeSpoolDir } from '../rig/bridge-process.ts';

const noLog: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** A spool with a reader that keeps what it is given. */
class OpenSpool {
  readonly changes: Changes;
  readonly items: SpoolItem[] = [];
  readonly committed: string[] = [];
  readonly spool: Spool;
  readonly dir: string;

  private constructor(spool: Spool, dir: string, changes: Changes) {
    this.changes = changes;
    this.spool = spool;
    this.dir = dir;
    spool.start((items) => {
      this.items.push(...items);
      this.changes.note();
    });
  }

  static async open(dir: string, options: { maxBytes?: number; bridgeId?: string } = {}): Promise<OpenSpool> {
    const changes = new Changes();
    const { spool } = await Spool.open({
      dir,
      maxBytes: options.maxBytes ?? 10_000_000,
      bridgeId: options.bridgeId ?? 'bridge-1',
      // A full spool says so in the log.
      log: { ...noLog, error: () => changes.note() },
    });
    return new OpenSpool(spool, dir, changes);
  }

  get payloads(): string[] {
    return this.items.map((item) => item.payload.toString());
  }

  add(...payloads: string[]): void {
    for (const payload of payloads) {
      this.spool.append(message(payload), () => {
        this.committed.push(payload);
        this.changes.note();
      });
    }
  }

  async addAndWait(...payloads: string[]): Promise<void> {
    const before = this.committed.length;
    this.add(...payloads);
    await this.changes.until('all committed', () => this.committed.length === before + payloads.length);
  }

  finish(...payloads: string[]): void {
    for (const item of this.items) if (payloads.includes(item.payload.toString())) this.spool.markDone(item);
  }

  async untilItems(count: number): Promise<void> {
    await this.changes.until(
      () => `${count} items, there are ${this.items.length}`,
      () => this.items.length === count,
    );
  }
}

function message(payload: string): SpooledMessage {
  return {
    receivedAtMs: 1_700_000_000_000,
    topic: '/sys/pk/d1/thing/event/property/post',
    payload: Buffer.from(payload),
    dup: false,
    retain: false,
    packetId: 7,
    brokerSession: 1,
  };
}

function segmentsIn(dir: string): string[] {
  return readdirSync(dir)
    .filter((name) => name.endsWith('.segment'))
    .sort()
    .map((name) => join(dir, name));
}

function marksIn(dir: string): string {
  const name = readdirSync(dir).find((one) => one.endsWith('.done'));
  if (name === undefined) throw new Error('no marks yet');
  return join(dir, name);
}

const segmentName = '0000000007-000000000000001-bridge-1-00.segment';

const open: OpenSpool[] = [];
async function openSpool(dir: string, options: { maxBytes?: number; bridgeId?: string } = {}): Promise<OpenSpool> {
  const one = await OpenSpool.open(dir, options);
  open.push(one);
  return one;
}
afterEach(async () => {
  for (const one of open.splice(0)) await one.spool.close();
});

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

  test('a message is not handed out before it would survive a power cut', async () => {
    const spool = await openSpool(makeSpoolDir());
    spool.add('a');
    expect(spool.items).toHaveLength(0);
    expect(spool.spool.depth).toBe(0);
    await spool.changes.until('committed', () => spool.committed.length === 1);
    expect(readFileSync(segmentsIn(spool.dir)[0]!).includes('a')).toBe(true);
  });

  test('what was not done is there after a restart under the same name and numbers, what was done is not', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a', 'b', 'c', 'd');
    await first.untilItems(4);
    first.finish('b', 'd');
    await first.spool.close();
    const second = await openSpool(dir);
    await second.untilItems(2);
    const { spoolId } = first.items[0]!;
    expect(second.payloads).toEqual(['a', 'c']);
    expect(second.items).toMatchObject([
      { seq: 1, spoolId, packetId: 7, receivedAtMs: 1_700_000_000_000 },
      { seq: 3, spoolId },
    ]);
    await second.addAndWait('e');
    await second.untilItems(3);
    expect(second.items[2]!.spoolId).toBe(spoolId);
    expect(second.items[2]!.seq).toBeGreaterThan(4);
  });

  test('numbers go on after everything was done and all old files are gone', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a', 'b');
    await first.untilItems(2);
    first.finish('a', 'b');
    await first.spool.close();
    const second = await openSpool(dir);
    await second.addAndWait('c');
    await second.untilItems(1);
    expect(second.items[0]!.spoolId).toBe(first.items[0]!.spoolId);
    expect(second.items[0]!.seq).toBeGreaterThan(2);
    expect(segmentsIn(dir)).toHaveLength(1);
  });

  test('a folder restored from an older copy gives no number to a new message that was used before', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a');
    const copy = makeSpoolDir();
    const file = segmentsIn(dir)[0]!;
    copyFileSync(file, file.replace(dir, copy));
    await first.addAndWait('b', 'c');
    await first.untilItems(3);
    const restored = await openSpool(copy);
    await restored.addAndWait('d');
    await restored.untilItems(2);
    expect(restored.items[1]!.seq).toBeGreaterThan(first.items[2]!.seq);
  });

  test('another bridge name is another spool, and what the old one left goes up under its own name', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a');
    await first.spool.close();
    const second = await openSpool(dir, { bridgeId: 'bridge' });
    await second.addAndWait('b');
    await second.untilItems(2);
    expect(second.payloads).toEqual(['a', 'b']);
    expect(second.items[0]!.spoolId).toMatch(/^bridge-1-[0-9a-f]{16}$/);
    expect(second.items[1]).toMatchObject({ seq: 1 });
    expect(second.items[1]!.spoolId).toMatch(/^bridge-[0-9a-f]{16}$/);
  });

  test('a backlog larger than the reader’s share comes from the disk, whole and in order', async () => {
    const dir = makeSpoolDir();
    const count = 45_000;
    const first = await openSpool(dir, { maxBytes: 100_000_000 });
    await first.addAndWait(...Array.from({ length: count }, (_, n) => `m${n}`));
    expect(first.items.length).toBeLessThan(count);
    while (first.items.length < count) {
      const given = first.items.length;
      for (const item of first.items) first.spool.markDone(item);
      await first.changes.until('more from the disk', () => first.items.length > given);
    }
    expect(first.payloads.every((payload, n) => payload === `m${n}`)).toBe(true);
  });
});

test('what the broker delivers again after a restart is not spooled again, as much as it may be', async () => {
  const dir = makeSpoolDir();
  const count = 5000;
  const messages = Array.from({ length: count }, (_, n) => ({ ...message(`m${n}`), packetId: n + 1 }));
  const { spool } = await Spool.open({ dir, maxBytes: 10_000_000, bridgeId: 'bridge-1', log: noLog });
  await new Promise<void>((resolve) => {
    for (const one of messages) spool.append(one, () => undefined);
    spool.afterPending(resolve);
  });
  await spool.close();
  const reopened = await Spool.open({ dir, maxBytes: 10_000_000, bridgeId: 'bridge-1', log: noLog });
  const intake = new Intake(reopened.spool, reopened.recent, createMetrics());
  const acknowledged: number[] = [];
  const connection = { acknowledge: (packetId: number) => acknowledged.push(packetId) } as unknown as MqttConnection;
  for (const one of messages) intake.take(connection, { ...one, dup: true }, () => undefined);
  await new Promise<void>((resolve) => reopened.spool.afterPending(resolve));
  expect(reopened.spool.depth).toBe(count);
  expect(acknowledged).toEqual(messages.map(({ packetId }) => packetId));
  await reopened.spool.close();
});

describe('damage', () => {
  async function leaveSpool(): Promise<{ dir: string; file: string; bytes: Buffer; spoolId: string }> {
    const dir = makeSpoolDir();
    const spool = await openSpool(dir);
    await spool.addAndWait('first', 'second', 'third');
    await spool.untilItems(3);
    const { spoolId } = spool.items[0]!;
    await spool.spool.close();
    const file = segmentsIn(dir)[0]!;
    return { dir, file, bytes: readFileSync(file), spoolId };
  }

  test('a file cut short at any byte keeps every whole record and takes new ones', async () => {
    const { dir, file, bytes, spoolId } = await leaveSpool();
    const recordBytes = bytes.length / 3 - 1;
    for (let length = bytes.length - 1; length > bytes.length - recordBytes; length -= 1) {
      const copyDir = makeSpoolDir();
      writeFileSync(file.replace(dir, copyDir), bytes.subarray(0, length));
      const spool = await openSpool(copyDir);
      await spool.untilItems(2);
      expect(spool.payloads).toEqual(['first', 'second']);
      expect(spool.spool.damagedRecords).toBe(1);
      await spool.addAndWait('fourth');
      await spool.untilItems(3);
      // The Worker may have seen the lost number: the next message must not be taken for it.
      expect(spool.items[2]!.spoolId).not.toBe(spoolId);
      expect(spool.items[0]!.spoolId).toBe(spoolId);
      await spool.spool.close();
    }
  });

  test('a bit that is wrong anywhere in the last record costs that record and nothing else', async () => {
    const { dir, file, bytes } = await leaveSpool();
    const start = bytes.lastIndexOf(Buffer.from([0xb5, 0x1d]));
    for (let at = start; at < bytes.length; at += 1) {
      const copyDir = makeSpoolDir();
      const rotten = Buffer.from(bytes);
      rotten[at] = rotten[at]! ^ 0x10;
      writeFileSync(file.replace(dir, copyDir), rotten);
      const spool = await openSpool(copyDir);
      await spool.untilItems(2);
      expect(spool.payloads).toEqual(['first', 'second']);
      expect(spool.spool.damagedRecords).toBe(1);
      await spool.spool.close();
    }
  });

  test('a rotten record in the middle is passed over, those after it are kept', async () => {
    const { dir, file, bytes } = await leaveSpool();
    const copyDir = makeSpoolDir();
    const rotten = Buffer.from(bytes);
    rotten[bytes.indexOf('second')] = 0;
    writeFileSync(file.replace(dir, copyDir), rotten);
    const spool = await openSpool(copyDir);
    await spool.untilItems(2);
    expect(spool.payloads).toEqual(['first', 'third']);
    expect(spool.spool.damagedRecords).toBe(1);
  });

  test('a folder full of nonsense does not keep the bridge from starting', async () => {
    const dir = makeSpoolDir();
    writeFileSync(join(dir, '0000000007-000000000000001-bridge-1-00.segment'), Buffer.alloc(5000, 0xb5));
    writeFileSync(join(dir, '0000000008-000000000000001-bridge-1-00.done'), 'nonsense');
    writeFileSync(join(dir, 'something-else'), 'x');
    const spool = await openSpool(dir);
    await spool.addAndWait('a');
    await spool.untilItems(1);
    expect(spool.spool.damagedRecords).toBe(1);
  });

  test('a payload that contains a record cannot smuggle one in through damage', async () => {
    const { dir, file, bytes } = await leaveSpool();
    const spool = await openSpool(makeSpoolDir());
    const forged = bytes.subarray(0, bytes.length / 3).toString('latin1');
    spool.spool.append({ ...message(''), payload: Buffer.from(forged, 'latin1') }, () => spool.add('after'));
    await spool.changes.until('after', () => spool.committed.includes('after'));
    await spool.spool.close();
    const [carrier] = segmentsIn(spool.dir);
    const damaged = readFileSync(carrier!);
    damaged[6] = damaged[6]! ^ 0xff;
    writeFileSync(carrier!, damaged);
    const again = await openSpool(spool.dir);
    await again.untilItems(1);
    expect(again.payloads).toEqual(['after']);
    expect([dir, file]).toHaveLength(2);
  });
});

describe('marks of what is done', () => {
  /** Opened again, because only that reads the marks. */
  async function readDepth(dir: string): Promise<number> {
    const spool = await openSpool(dir);
    const { depth } = spool.spool;
    await spool.spool.close();
    return depth;
  }

  test('a torn mark does not spoil those that are made after the next start', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a', 'b', 'c', 'd');
    await first.untilItems(4);
    first.finish('a');
    await first.spool.close();
    appendFileSync(marksIn(dir), Buffer.from([1, 2, 3]));
    const second = await openSpool(dir);
    await second.untilItems(3);
    second.finish('b', 'c');
    await second.spool.close();
    expect(await readDepth(dir)).toBe(1);
  });

  test('a mark that a full disk has torn does not spoil those that are made once there is room', async () => {
    const dir = makeSpoolDir();
    const spool = await openSpool(dir);
    await spool.addAndWait('a', 'b', 'c', 'd');
    await spool.untilItems(4);
    const tearing = await tearNextAppend(5);
    spool.finish('a', 'b');
    await spool.changes.until('a torn write', () => tearing.hasTorn);
    spool.finish('c');
    await spool.spool.close();
    // The torn one and the one that was never done.
    expect(await readDepth(dir)).toBe(2);
  });

  /** The disk takes so many bytes of the next append, and then is full. */
  async function tearNextAppend(bytesTaken: number): Promise<{ hasTorn: boolean }> {
    const probe = await openFile(join(makeSpoolDir(), 'probe'), 'w');
    const prototype = Object.getPrototypeOf(probe) as typeof probe;
    await probe.close();
    const tearing = { hasTorn: false };
    vi.spyOn(prototype, 'appendFile').mockImplementationOnce(async function (this: typeof probe, bytes) {
      await this.write((bytes as Buffer).subarray(0, bytesTaken));
      tearing.hasTorn = true;
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    });
    return tearing;
  }

  // The memory of a process reads as a bad place of a disk does: EIO.
  test.runIf(process.platform === 'linux')('marks that the disk cannot read do not cost the messages', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a', 'b');
    await first.spool.close();
    symlinkSync('/proc/self/mem', segmentsIn(dir)[0]!.replace(/segment$/, 'done'));
    const second = await openSpool(dir);
    await second.untilItems(2);
    expect(second.spool.damagedRecords).toBe(0);
  });
});

describe('a spool file that cannot be opened', () => {
  test.each([
    ['a folder in its place', 'EISDIR', (path: string) => mkdirSync(path)],
    ['a link that leads nowhere', 'ELOOP', (path: string) => symlinkSync(path, path)],
  ])('ends the start and stays where it is: %s', async (_, code, make) => {
    const dir = makeSpoolDir();
    const path = join(dir, segmentName);
    make(path);
    await expect(openSpool(dir)).rejects.toThrow(`${path} cannot be opened (${code})`);
    expect(readdirSync(dir)).toEqual([segmentName]);
  });

  test.runIf(process.getuid)('ends the start when it is another user’s, and is read once it is ours', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a', 'b');
    await first.spool.close();
    const path = segmentsIn(dir)[0]!;
    chmodSync(path, 0);
    const refusal = /\.segment cannot be opened \(EACCES\).*give the file to the user of this process/;
    await asOrdinaryUser(dir, () => expect(openSpool(dir)).rejects.toThrow(refusal));
    expect(segmentsIn(dir)).toEqual([path]);
    chmodSync(path, 0o600);
    const second = await openSpool(dir);
    await second.untilItems(2);
  });

  test('ends the start when it is the marks that cannot be opened, and names them', async () => {
    const dir = makeSpoolDir();
    const first = await openSpool(dir);
    await first.addAndWait('a');
    await first.spool.close();
    const marks = segmentsIn(dir)[0]!.replace(/segment$/, 'done');
    symlinkSync(marks, marks);
    await expect(openSpool(dir)).rejects.toThrow(`${marks} cannot be opened (ELOOP)`);
    expect(segmentsIn(dir)).toHaveLength(1);
  });

  test.runIf(process.platform === 'linux')('is put aside when the disk has lost it, and the rest goes on', async () => {
    const dir = makeSpoolDir();
    symlinkSync('/proc/self/mem', join(dir, segmentName));
    await expectPutAside(dir);
  });

  test('is put aside when it is larger than any spool file, and the rest goes on', async () => {
    const dir = makeSpoolDir();
    const path = join(dir, segmentName);
    writeFileSync(path, '');
    truncateSync(path, 3 * 1024 ** 3);
    await expectPutAside(dir);
  });

  async function expectPutAside(dir: string): Promise<void> {
    const spool = await openSpool(dir);
    await spool.addAndWait('a');
    expect(spool.spool.damagedRecords).toBe(1);
    expect(readdirSync(dir)).toContain(`${segmentName}.unreadable`);
  }

  /** Nothing is closed to root: there the files of the folder are opened as nobody. */
  async function asOrdinaryUser(dir: string, act: () => Promise<void>): Promise<void> {
    const nobody = 65_534;
    const userId = process.geteuid!();
    if (userId !== 0) return act();
    chownSync(dir, nobody, nobody);
    process.seteuid!(nobody);
    try {
      await act();
    } finally {
      process.seteuid!(userId);
    }
  }
});

describe('limits', () => {
  const big = (name: string): string => name.padEnd(10_000, '.');

  test('a full spool commits nothing more, keeps the order, and goes on when there is room', async () => {
    const spool = await openSpool(makeSpoolDir(), { maxBytes: 262_144 });
    const payloads = Array.from({ length: 40 }, (_, n) => big(`m${n}`));
    spool.add(...payloads);
    await spool.changes.until('full', () => spool.spool.isFull || spool.committed.length === 40);
    expect(spool.spool.isFull).toBe(true);
    expect(spool.spool.diskBytes).toBeLessThanOrEqual(262_144);
    const committed = spool.committed.length;
    expect(committed).toBeGreaterThan(20);
    expect(committed).toBeLessThan(27);
    expect(spool.spool.pendingCount).toBe(40 - committed);
    spool.finish(...payloads.slice(0, 20));
    await spool.changes.until('the rest', () => spool.committed.length === 40);
    expect(spool.committed).toEqual(payloads);
    expect(spool.payloads).toEqual(payloads);
    expect(spool.spool.isFull).toBe(false);
  });

  test('one message that is never done does not fill the spool', async () => {
    const dir = makeSpoolDir();
    const spool = await openSpool(dir, { maxBytes: 262_144 });
    const stuck: string[] = [];
    for (let round = 0; round < 60; round += 1) {
      const payloads = [`stuck${round}`, big(`a${round}`), big(`b${round}`)];
      stuck.push(payloads[0]!);
      await spool.addAndWait(...payloads);
      await spool.untilItems((round + 1) * 3);
      spool.finish(payloads[1]!, payloads[2]!);
    }
    expect(spool.spool.depth).toBe(60);
    await spool.spool.close();
    const again = await openSpool(dir, { maxBytes: 262_144 });
    await again.untilItems(60);
    expect(again.payloads).toEqual(stuck);
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
    const payloads = Array.from({ length: 20 }, (_, n) => `${n}`.padEnd(1_000_000, '.'));
    spool.add(...payloads);
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
