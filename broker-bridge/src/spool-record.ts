// The bytes of one message in a spool file, and how a file is read back when some of them are torn or rotten.
// Pure: no files, no clocks. A record is magic (2) | body length (4) | CRC-32 of the body (4) | body.
import { crc32 } from 'node:zlib';

export type SpoolRecord = {
  /** Positive, growing within one spool, never given twice. */
  seq: number;
  receivedAtMs: number;
  topic: string;
  payload: Buffer;
  dup: boolean;
  retain: boolean;
  /** MQTT packet identifier; 0 for QoS 0. With the session it tells a redelivery from a new message. */
  packetId: number;
  /** Names the broker session that delivered the message. */
  brokerSession: number;
};

const magic = Buffer.from([0xb5, 0x1d]);
const headerBytes = 10;
const fixedBodyBytes = 6 + 6 + 1 + 2 + 4 + 2;
const dupFlag = 1;
const retainFlag = 2;

/** A record's size on disk, before it is encoded. */
export function countRecordBytes(topic: string, payload: Buffer): number {
  return headerBytes + fixedBodyBytes + Buffer.byteLength(topic) + payload.length;
}

/**
 * `seed` starts the checksum and differs from spool to spool: bytes inside a device's payload cannot pass for a
 * record of their own while a damaged file is searched for the next whole one.
 */
export function encodeRecords(records: readonly SpoolRecord[], seed: number): Buffer {
  const sizes = records.map(({ topic, payload }) => countRecordBytes(topic, payload));
  const bytes = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + size, 0));
  let start = 0;
  for (const [index, record] of records.entries()) {
    const end = start + (sizes[index] ?? 0);
    encodeInto(bytes.subarray(start, end), record, seed);
    start = end;
  }
  return bytes;
}

function encodeInto(bytes: Buffer, record: SpoolRecord, seed: number): void {
  const bodyBytes = bytes.length - headerBytes;
  magic.copy(bytes, 0);
  bytes.writeUInt32BE(bodyBytes, 2);
  let at = headerBytes;
  at = bytes.writeUIntBE(record.seq, at, 6);
  at = bytes.writeUIntBE(record.receivedAtMs, at, 6);
  at = bytes.writeUInt8((record.dup ? dupFlag : 0) | (record.retain ? retainFlag : 0), at);
  at = bytes.writeUInt16BE(record.packetId, at);
  at = bytes.writeUInt32BE(record.brokerSession, at);
  at = bytes.writeUInt16BE(bodyBytes - fixedBodyBytes - record.payload.length, at);
  at += bytes.write(record.topic, at);
  record.payload.copy(bytes, at);
  bytes.writeUInt32BE(checksum(bytes.subarray(headerBytes), bodyBytes, seed), 6);
}

export type ScannedRecords = {
  records: SpoolRecord[];
  /** Stretches between whole records that could not be read. */
  damagedStretches: number;
  /** Unreadable bytes after the last whole record: a write that was cut short, or a rotten last record. */
  tornTailBytes: number;
  /** Where the last whole record ends. */
  wholeBytes: number;
};

/** Reads every whole record; after damage it goes on at the next place where a whole record begins. */
export function scanRecords(bytes: Buffer, seed: number): ScannedRecords {
  const records: SpoolRecord[] = [];
  let damagedStretches = 0;
  let wholeBytes = 0;
  let at = 0;
  while (at < bytes.length) {
    const found = decodeRecordAt(bytes, at, seed);
    if (found !== null) {
      if (at !== wholeBytes) damagedStretches += 1;
      records.push(found.record);
      at = found.endsAt;
      wholeBytes = at;
      continue;
    }
    const next = bytes.indexOf(magic, at + 1);
    at = next === -1 ? bytes.length : next;
  }
  return { records, damagedStretches, tornTailBytes: bytes.length - wholeBytes, wholeBytes };
}

function decodeRecordAt(bytes: Buffer, start: number, seed: number): { record: SpoolRecord; endsAt: number } | null {
  const bodyStart = start + headerBytes;
  if (bodyStart + fixedBodyBytes > bytes.length) return null;
  if (bytes[start] !== magic[0] || bytes[start + 1] !== magic[1]) return null;
  const bodyBytes = bytes.readUInt32BE(start + 2);
  const endsAt = bodyStart + bodyBytes;
  if (bodyBytes < fixedBodyBytes || endsAt > bytes.length) return null;
  const body = bytes.subarray(bodyStart, endsAt);
  if (bytes.readUInt32BE(start + 6) !== checksum(body, bodyBytes, seed)) return null;
  const topicEnd = fixedBodyBytes + body.readUInt16BE(19);
  const flags = body.readUInt8(12);
  const record: SpoolRecord = {
    seq: body.readUIntBE(0, 6),
    receivedAtMs: body.readUIntBE(6, 6),
    dup: (flags & dupFlag) !== 0,
    retain: (flags & retainFlag) !== 0,
    packetId: body.readUInt16BE(13),
    brokerSession: body.readUInt32BE(15),
    topic: body.toString('utf8', fixedBodyBytes, topicEnd),
    payload: body.subarray(topicEnd),
  };
  return { record, endsAt };
}

function checksum(body: Buffer, bodyBytes: number, seed: number): number {
  return crc32(body, (seed ^ bodyBytes) >>> 0);
}
