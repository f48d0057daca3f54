// The one way to read JSON that came from outside.
import type { z } from 'zod';

/** undefined if the text is no JSON, or not of that shape. */
export function readJson<T>(schema: z.ZodType<T>, text: string): T | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
