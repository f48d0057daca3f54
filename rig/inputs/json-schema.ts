// Checks values against the JSON Schemas of the served documents, strictly: a member that the schema does not name is an
// error.
import { z } from 'zod';

export type JsonSchema = { [keyword: string]: unknown };

/** Checks values against schemas of `document`, in which `$ref`s are looked up. `isClosed`: no member unnamed. */
export function createSchemaCheck(document: unknown, { isClosed }: { isClosed: boolean }) {
  const compiled = new Map<JsonSchema, z.ZodType>();
  /** What is wrong, one line a problem; nothing if the value matches. */
  return (schema: JsonSchema, value: unknown): string[] => {
    let type = compiled.get(schema);
    if (type === undefined) {
      type = z.fromJSONSchema(resolve(document, schema, isClosed) as never);
      compiled.set(schema, type);
    }
    const result = type.safeParse(value);
    if (result.success) return [];
    return result.error.issues.map((issue) => `${issue.path.join('.') || 'value'}: ${issue.message}`);
  };
}

/** The schema with everything it refers to in place. */
export function resolve(document: unknown, schema: unknown, isClosed = false): unknown {
  if (Array.isArray(schema)) return schema.map((part) => resolve(document, part, isClosed));
  if (typeof schema !== 'object' || schema === null) return schema;
  if ('$ref' in schema) return resolve(document, lookUp(document, String(schema.$ref)), isClosed);
  const resolved = Object.fromEntries(
    Object.entries(schema).map(([name, part]) => [
      name,
      // Values, not schemas.
      ['example', 'examples', 'default', 'const', 'enum'].includes(name) ? part : resolve(document, part, isClosed),
    ]),
  );
  return isClosed && 'properties' in resolved ? { additionalProperties: false, ...resolved } : resolved;
}

function lookUp(document: unknown, pointer: string): unknown {
  let place = document;
  for (const part of pointer.replace(/^#\//, '').split('/')) {
    place = (place as Record<string, unknown> | undefined)?.[part.replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  if (place === undefined) throw new Error(`${pointer} leads nowhere`);
  return place;
}
