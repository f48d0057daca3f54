// One file of the spool: records appended and flushed to the disk, and beside it the list of those that are done.
// It knows nothing of limits, order of devices or other segments; one process at a time may open it.
import { open, readFile, rename, truncate, unlink, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { countRecordBytes, encodeRecords, scanRecords, type ScannedRecords, type SpoolRecord } from './spool-record.ts';

const doneEntryBytes = 8;
const namePattern = /^(\d{10})-(\d{15})-([A-Za-z0-9._-]{1,80})\.segment$/;

/** What a segment's file name says, so that no other file is needed to go on after a restart. */
export type SegmentName = { number: number; firstSeq: number; spoolId: string };

export function parseSegmentName(fileName: string): SegmentName | null {
  const match = namePattern.exec(fileName);
  if (match === null) return null;
  return { number: Number(match[1]), firstSeq: Number(match[2]), spoolId: String(match[3]) };
}

export class Segment {
  readonly name: SegmentName;
  /** Flushed bytes of whole records: what a reader may read. */
  sizeBytes = 0;
  /** Records that are not done, and their bytes. */
  liveRecords = 0;
  liveBytes = 0;
  /** Up to here the records have been handed out. */
  loadedBytes = 0;
  /** Records that were handed out and are not done. */
  #handedOut = 0;
  readonly #path: string;
  readonly #seed: number;
  #file: FileHandle | null = null;
  #doneFile: FileHandle | null = null;
  #doneUnwritten: number[] = [];
  #doneWriting: Promise<void> | null = null;

  private constructor(dir: string, name: SegmentName) {
    this.name = name;
    this.#seed = crc32(name.spoolId);
    const number = String(name.number).padStart(10, '0');
    this.#path = join(dir, `${number}-${String(name.firstSeq).padStart(15, '0')}-${name.spoolId}.segment`);
  }

  /** Makes a new file whose name is on the disk before anything is appended. */
  static async create(dir: string, name: SegmentName): Promise<Segment> {
    const segment = new Segment(dir, name);
    segment.#file = await open(segment.#path, 'wx', 0o600);
    await syncFolder(dir);
    return segment;
  }

  /** Reads a file left by an earlier run: cuts a torn tail and counts what is still to be done. */
  static async recover(dir: string, fileName: string): Promise<{ segment: Segment; scanned: ScannedRecords }> {
    const name = parseSegmentName(fileName);
    if (name === null) throw new Error(`not a segment: ${fileName}`);
    const segment = new Segment(dir, name);
    const scanned = scanRecords(await readFile(segment.#path), segment.#seed);
    if (scanned.tornTailBytes > 0) await truncate(segment.#path, scanned.wholeBytes);
    // A killed process leaves whole records that may not have reached the disk yet.
    const file = await open(segment.#path, 'r+');
    await file.datasync().finally(() => file.close());
    segment.sizeBytes = scanned.wholeBytes;
    const done = await segment.#readDone();
    for (const record of scanned.records) {
      if (done.has(record.seq >>> 0)) continue;
      segment.liveRecords += 1;
      segment.liveBytes += countRecordBytes(record.topic, record.payload);
    }
    return { segment, scanned };
  }

  get spoolId(): string {
    return this.name.spoolId;
  }

  get isLoaded(): boolean {
    return this.loadedBytes === this.sizeBytes;
  }

  /** Resolves when the records are on the disk. After an error the segment must be sealed. */
  async append(records: SpoolRecord[]): Promise<void> {
    if (this.#file === null) throw new Error('segment is sealed');
    const bytes = encodeRecords(records, this.#seed);
    let written = 0;
    while (written < bytes.length) {
      const position = this.sizeBytes + written;
      written += (await this.#file.write(bytes, written, bytes.length - written, position)).bytesWritten;
    }
    await this.#file.datasync();
    this.sizeBytes += bytes.length;
    this.liveRecords += records.length;
    this.liveBytes += bytes.length;
  }

  /** No more appends; bytes of a failed append are cut off again. */
  async seal(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    if (file === null) return;
    try {
      await file.truncate(this.sizeBytes);
    } finally {
      await file.close();
    }
  }

  /** The records that are neither done nor handed out yet; they count as handed out from here on. */
  async load(): Promise<SpoolRecord[]> {
    const upToBytes = this.sizeBytes;
    const file = await open(this.#path, 'r');
    try {
      const bytes = Buffer.alloc(upToBytes - this.loadedBytes);
      const { bytesRead } = await file.read(bytes, 0, bytes.length, this.loadedBytes);
      const done = await this.#readDone();
      const { records } = scanRecords(bytes.subarray(0, bytesRead), this.#seed);
      const live = records
        .filter((record) => !done.has(record.seq >>> 0))
        // A slice would keep the whole file in memory for as long as its slowest message lives.
        .map((record) => ({ ...record, payload: Buffer.from(record.payload) }));
      this.loadedBytes = upToBytes;
      this.#handedOut += live.length;
      return live;
    } finally {
      await file.close();
    }
  }

  /** For records that go from the append straight to the reader, without being read back. */
  skipLoading(recordCount: number): void {
    this.loadedBytes = this.sizeBytes;
    this.#handedOut += recordCount;
  }

  /** Records that were counted at the start or append but could not be read back since; they are counted no more. */
  writeOffUnreadable(): number {
    const lost = this.isLoaded ? this.liveRecords - this.#handedOut : 0;
    this.liveRecords -= lost;
    return lost;
  }

  /** Not flushed to the disk: a mark that is lost only means that the Worker is told twice. */
  markDone(record: SpoolRecord): void {
    this.liveRecords -= 1;
    this.liveBytes -= countRecordBytes(record.topic, record.payload);
    this.#handedOut -= 1;
    this.#doneUnwritten.push(record.seq);
    this.#doneWriting ??= this.#writeDone();
  }

  /** Keeps only the records that are not done. The file is replaced in one step. */
  async compact(): Promise<void> {
    await this.#doneWriting;
    const scanned = scanRecords(await readFile(this.#path), this.#seed);
    const done = await this.#readDone();
    const live = scanned.records.filter((record) => !done.has(record.seq >>> 0));
    const kept = encodeRecords(live, this.#seed);
    const temporary = `${this.#path}.compacting`;
    const file = await open(temporary, 'w', 0o600);
    try {
      await file.writeFile(kept);
      await file.datasync();
    } finally {
      await file.close();
    }
    await rename(temporary, this.#path);
    await syncFolder(dirname(this.#path));
    this.sizeBytes = kept.length;
    this.loadedBytes = kept.length;
  }

  async remove(): Promise<void> {
    await this.close();
    await unlink(this.#path);
    await unlink(this.#donePath).catch(ignoreMissing);
  }

  async close(): Promise<void> {
    await this.seal();
    await this.#doneWriting;
    await this.#closeDone();
  }

  get #donePath(): string {
    return join(dirname(this.#path), `${basename(this.#path, '.segment')}.done`);
  }

  async #writeDone(): Promise<void> {
    while (this.#doneUnwritten.length > 0) {
      const seqs = this.#doneUnwritten;
      this.#doneUnwritten = [];
      try {
        await this.#appendDone(seqs);
      } catch {
        // A full disk must not stop the bridge here: unmarked records are sent again after a restart, no more.
        // The failed write may have torn an entry: the next one opens the file anew, which cuts it off.
        await this.#closeDone().catch(() => undefined);
      }
    }
    this.#doneWriting = null;
  }

  async #appendDone(seqs: readonly number[]): Promise<void> {
    const bytes = Buffer.allocUnsafe(seqs.length * doneEntryBytes);
    seqs.forEach((seq, index) => {
      const at = index * doneEntryBytes;
      bytes.writeUInt32BE(seq >>> 0, at);
      bytes.writeUInt32BE(crc32(bytes.subarray(at, at + 4), this.#seed), at + 4);
    });
    this.#doneFile ??= await this.#openDone();
    await this.#doneFile.appendFile(bytes);
  }

  /** Cuts a torn entry off: entries are read at fixed places, and all after it would be misread. */
  async #openDone(): Promise<FileHandle> {
    const file = await open(this.#donePath, 'a', 0o600);
    try {
      const { size } = await file.stat();
      const tornBytes = size % doneEntryBytes;
      // By its name, because Windows does not let a file be cut that is open for appending.
      if (tornBytes > 0) await truncate(this.#donePath, size - tornBytes);
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  async #closeDone(): Promise<void> {
    const file = this.#doneFile;
    this.#doneFile = null;
    await file?.close();
  }

  /** The low 32 bits of each number marked done; entries with a wrong checksum are passed over. */
  async #readDone(): Promise<Set<number>> {
    const done = new Set<number>();
    const bytes = await readFile(this.#donePath).catch(ignoreMissingOrRotten);
    for (let at = 0; bytes && at + doneEntryBytes <= bytes.length; at += doneEntryBytes) {
      if (bytes.readUInt32BE(at + 4) !== crc32(bytes.subarray(at, at + 4), this.#seed)) continue;
      done.add(bytes.readUInt32BE(at));
    }
    return done;
  }
}

async function syncFolder(dir: string): Promise<void> {
  // Windows knows no such thing, and needs none: it writes names down with the file.
  if (process.platform === 'win32') return;
  const folder = await open(dir, 'r');
  await folder.sync().finally(() => folder.close());
}

function ignoreMissing(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
}

/** Marks on a bad place of the disk must not cost the messages: without them the Worker is only told twice. */
function ignoreMissingOrRotten(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== 'EIO') ignoreMissing(error);
}
