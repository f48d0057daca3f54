// What a spool folder holds at start: which messages are still to be sent, what was damaged, where numbering goes on.
// Damage is cut, counted and logged; it must never keep the bridge from starting. A file that cannot be opened for
// another reason must: going on without it would lose messages that the broker was told are safe.
import { randomBytes } from 'node:crypto';
import { readdir, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describeError, type Log } from './log.ts';
import { maxRemembered, noteDelivery, type SpooledDelivery } from './redeliveries.ts';
import { parseSegmentName, Segment } from './spool-segment.ts';

/**
 * Numbers passed over at each start. A disk that lost what it had confirmed, or a folder restored from a copy, would
 * otherwise give numbers to new messages that the Worker has seen, and it would take them for old ones.
 */
const skippedSeqs = 1_000_000;

/** A bad place on the disk, or a size that no spool file ever has. Rotten bytes throw nothing: they are passed over. */
const damageCodes = ['EIO', 'ERR_FS_FILE_TOO_LARGE'];

const remedies: Record<string, string> = {
  EACCES: 'give the file to the user of this process',
  EPERM: 'give the file to the user of this process',
  EMFILE: 'let this process open more files',
  ENFILE: 'let the system open more files',
  ENOMEM: 'give this process more memory',
};

export type RecoveredSegments = {
  /** Oldest first. */
  segments: Segment[];
  damagedRecords: number;
  nextNumber: number;
  /**
   * Null where the newest file is missing or damaged: numbers that the Worker has already seen may be lost with it,
   * and a message under such a number would be taken for an old one. A new spool name makes them new.
   */
  continues: { spoolId: string; nextSeq: number } | null;
  recent: SpooledDelivery[];
};

export async function recoverSegments(dir: string, bridgeId: string, log: Log): Promise<RecoveredSegments> {
  const fileNames = (await readdir(dir)).sort();
  const segments: Segment[] = [];
  let recent: SpooledDelivery[] = [];
  let damagedRecords = 0;
  let nextNumber = 1;
  let continues: RecoveredSegments['continues'] = null;
  for (const fileName of fileNames) {
    const name = parseSegmentName(fileName);
    if (name === null) continue;
    nextNumber = name.number + 1;
    try {
      const { segment, scanned } = await Segment.recover(dir, fileName);
      const damage = scanned.damagedStretches + (scanned.tornTailBytes > 0 ? 1 : 0);
      if (damage > 0) {
        log.warn('the spool was damaged: unreadable bytes are passed over', {
          file: fileName,
          stretches: damage,
          tornTailBytes: scanned.tornTailBytes,
        });
      }
      damagedRecords += damage;
      segments.push(segment);
      recent = [...recent, ...scanned.records.slice(-maxRemembered).map(noteDelivery)].slice(-maxRemembered);
      const mayContinue = damage === 0 && isSpoolOf(bridgeId, name.spoolId);
      const nextSeq = (scanned.records.at(-1)?.seq ?? name.firstSeq) + skippedSeqs;
      continues = mayContinue ? { spoolId: name.spoolId, nextSeq } : null;
    } catch (error) {
      if (!damageCodes.includes(readCode(error))) throw new Error(explainUnopened(join(dir, fileName), error));
      damagedRecords += 1;
      continues = null;
      log.error('a spool file cannot be read and is put aside', {
        alarm: true,
        file: fileName,
        cause: describeError(error),
      });
      await rename(join(dir, fileName), join(dir, `${fileName}.unreadable`)).catch(() => undefined);
    }
  }
  await removeLeftovers(dir, fileNames);
  return { segments, damagedRecords, nextNumber, continues, recent };
}

function readCode(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? describeError(error);
}

function explainUnopened(segmentPath: string, error: unknown): string {
  // The error may be about the marks beside the segment.
  const path = (error as NodeJS.ErrnoException).path ?? segmentPath;
  const code = readCode(error);
  const remedy = remedies[code] ?? 'see to it that this process can read and write the file';
  return `the spool file ${path} cannot be opened (${code}), and may hold unsent messages: ${remedy}, then start again`;
}

/** A spool's name is the bridge's name and a random part. */
export function nameSpool(bridgeId: string): string {
  return `${bridgeId}-${randomBytes(8).toString('hex')}`;
}

function isSpoolOf(bridgeId: string, spoolId: string): boolean {
  return spoolId.startsWith(`${bridgeId}-`) && /^[0-9a-f]{16}$/.test(spoolId.slice(bridgeId.length + 1));
}

/** Half-made files of a compaction, and marks whose segment is gone. */
async function removeLeftovers(dir: string, fileNames: string[]): Promise<void> {
  for (const fileName of fileNames) {
    const isOrphan = fileName.endsWith('.done') && !fileNames.includes(fileName.replace(/\.done$/, '.segment'));
    if (isOrphan || fileName.endsWith('.compacting')) await unlink(join(dir, fileName)).catch(() => undefined);
  }
}
