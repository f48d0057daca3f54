// A spooled message in the form in which it goes up, or why it never will. Every message pays for it; it must not throw.
import { isUtf8 } from 'node:buffer';
import { maxPayloadBytes } from '../../../src/protocol/bridge.ts';
import { deviceOf } from '../intake/flood-gate.ts';
import { describeError } from '../../../node-service/log.ts';
import type { SpoolItem } from '../spool/database.ts';

export type UplinkMessage = {
  item: SpoolItem;
  device: string;
  receivedAtMs: number;
  json: string;
  /** As the dead letters keep it. */
  letter: string;
  bytes: number;
  /** Why it goes to the dead letters and is not sent; null if it is sent. */
  refusal: string | null;
  /** Tries that failed because of this very message, and how many messages the Worker had taken at the last of them. */
  failures: { tries: number; takenBefore: number };
};

/** What a dead letter keeps of a payload that is too large. */
const headBytes = 1024;

/** Writes an `UplinkItem` by hand: a schema would cost more than all the rest. */
export function prepare(item: SpoolItem): UplinkMessage {
  const { topic, payload, receivedAtMs } = item;
  const known = { item, device: deviceOf(topic), receivedAtMs, failures: { tries: 0, takenBefore: -1 } };
  if (item.trueBytes !== null || payload.length > maxPayloadBytes) {
    const size = `"payloadBytes":${item.trueBytes ?? payload.length}`;
    const letter = writeItem(item, `${writeContent(payload.subarray(0, headBytes))},${size}`);
    const json = writeItem(item, size);
    return { ...known, json, letter, bytes: Buffer.byteLength(json) + 1, refusal: null };
  }
  try {
    const json = writeItem(item, writeContent(payload));
    return { ...known, json, letter: json, bytes: Buffer.byteLength(json) + 1, refusal: null };
  } catch (error) {
    const json = JSON.stringify({ seq: item.seq, topic, receivedAtMs });
    return { ...known, json, letter: json, bytes: 0, refusal: `cannot be prepared: ${describeError(error)}` };
  }
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
