// JSON values and the one way to read them from text that may hold none, or more than anything here can handle.
import { maxJsonDepth, maxJsonMembers } from '../protocol/mqtt.ts';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export type JsonProblem = 'not_json' | 'too_complex';

/** The parsed JSON; where there is none, `problem` says why. */
export function readJson(text: string): { value: Json } | { problem: JsonProblem } {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    if (error instanceof SyntaxError) return { problem: 'not_json' };
    throw error;
  }
  return isTooComplex(value) ? { problem: 'too_complex' } : { value };
}

/** The parsed JSON, or undefined where the text is none, or is too complex. */
export function parseJson(text: string): Json | undefined {
  const read = readJson(text);
  return 'value' in read ? read.value : undefined;
}

export function isJsonObject(value: Json | undefined): value is { [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Level by level: what is written anew or compared later recurses, and would run out of stack. */
function isTooComplex(value: Json): boolean {
  let members = 0;
  let level = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    const next: Json[] = [];
    for (const one of level) {
      if (typeof one !== 'object' || one === null) continue;
      const values = Array.isArray(one) ? one : Object.values(one);
      if (!Array.isArray(one)) members += values.length;
      for (const inner of values) if (typeof inner === 'object' && inner !== null) next.push(inner);
      if (depth >= maxJsonDepth || members > maxJsonMembers) return true;
    }
    level = next;
  }
  return false;
}
