// JSON values and the one way to read them from text that may hold none, or more than anything here can handle.
import { maxJsonDepth, maxJsonMembers } from '../protocol/mqtt.ts';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export function readJson(text: string): { value: Json } | { problem: 'not_json' | 'too_complex' } {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    if (error instanceof SyntaxError) return { problem: 'not_json' };
    throw error;
  }
  return countMembers(value, 0) > maxJsonMembers ? { problem: 'too_complex' } : { value };
}

export function parseJson(text: string): Json | undefined {
  const read = readJson(text);
  return 'value' in read ? read.value : undefined;
}

export function isJsonObject(value: unknown): value is { [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The same text for values that differ in the order of members only. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    isJsonObject(part)
      ? Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  );
}

function countMembers(value: Json, depth: number): number {
  if (typeof value !== 'object' || value === null) return 0;
  if (depth >= maxJsonDepth) return Infinity;
  const values = Array.isArray(value) ? value : Object.values(value);
  let members = Array.isArray(value) ? 0 : values.length;
  for (const inner of values) members += countMembers(inner, depth + 1);
  return members;
}
