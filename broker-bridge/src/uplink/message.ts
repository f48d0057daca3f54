// A spooled message in the form in which it goes up, and in which the dead letters keep it. Every message pays for it.
import { isUtf8 } from 'node:buffer';
import { maxPayloadBytes } from '../../../src/protocol/bridge.ts';
import { deviceOf } from '../intake/flood-gate.ts';
import type { SpoolItem } from '../spool/database.ts';

export type UplinkMessage = {
  item: SpoolItem;
  device: string;
  receivedAtMs: number;
  json: string;
  /** As the dead letters keep it. */
  letter: string;
  bytes: number;
  /** Tries that failed because of this very message, and how many messages the Worker had taken at the last of them. */
  failures: { tries: number; takenBefore: number };
};

/** What a dead letter keeps of a payload that is too large. */
const headBytes = 1024;

/** Writes an `UplinkItem` by hand: a schema would cost more than all the rest. */
export function prepare(item: SpoolItem): UplinkMessage {
  const { topic, payload, receivedAtMs } = item;
  const isCut = item.trueBytes !== null || payload.length > maxPayloadBytes;
  const size = `"payloadBytes":${item.trueBytes ?? payload.length}`;
  const json = writeItem(item, isCut ? size : writeContent(payload));
  const letter = isCut ? writeItem(item, `${writeContent(payload.subarray(0, headBytes))},${size}`) : json;
  const bytes = Buffer.byteLength(json) + 1;
  return { item, device: deviceOf(topic), receivedAtMs, json, letter, bytes, failures: { tries: 0, takenBefore: -1 } };
}

function writeContent(payload: Buffer): string {
  return isUtf8(payload)
    ? `"payload":${JSON.stringify(payload.toString())}`
    : `"payloadBase64":"${payload.toString('base64')}"`;
}

function writeItem({ seq, topic, dup, retain, soleReader, redeliveryOf, receivedAtMs }: SpoolItem, content: string) {
  let flags = '';
  if (retain) flags += ',"retain":true';
  if (dup) flags += ',"dup":true';
  if (soleReader) flags += ',"soleReader":true';
  if (redeliveryOf !== null) flags += `,"redeliveryOf":${redeliveryOf}`;
  return `{"seq":${seq},"topic":${JSON.stringify(topic)},${content}${flags},"receivedAtMs":${receivedAtMs}}`;
}
