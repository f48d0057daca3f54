// JSON values and the one way to read them from text that may hold none.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The parsed JSON, or undefined where the text is none. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export function isJsonObject(value: Json | undefined): value is { [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
