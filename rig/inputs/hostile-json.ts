// Inputs for fuzzing, made from JSON Schemas: valid ones, ones with a single member spoiled, and text that is hardly
// JSON at all. Sends nothing.
import fc from 'fast-check';
import type { JsonSchema } from './json-schema.ts';

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

const injections = [
  "' OR '1'='1",
  "'; DROP TABLE users; --",
  '" or ""="',
  '%27%20OR%201=1',
  '../../../etc/passwd',
  '..%2f..%2f',
  '%00',
  '%ZZ',
  '\r\nSet-Cookie: a=b',
  '<script>alert(1)</script>',
  '${7*7}',
  '{{7*7}}',
  '$(reboot)',
  '*)(uid=*))(|(uid=*',
  '\u0000',
  '\ud800',
  '\udc00\ud800',
  '\u202e\u200b\ufeff',
  'e\u0301\u0327',
  '𝔘𝔫𝔦𝔠𝔬𝔡𝔢 👩‍👩‍👧‍👦',
  'ﷺ'.repeat(50),
  '/sys/+/+/#',
  '$share/a/#',
  'null',
  'undefined',
  'NaN',
  '1e999',
  '-0',
  'constructor',
  '__proto__',
  'toString',
  'hasOwnProperty',
];

const hostileNames = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'valueOf',
  'hasOwnProperty',
  'then',
  '',
  '$ref',
];

export const hostileText: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...injections) },
  { weight: 3, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
  { weight: 2, arbitrary: fc.string({ maxLength: 300 }) },
  { weight: 1, arbitrary: fc.constantFrom(255, 256, 1_024, 5_000, 70_000).map((length) => 'x'.repeat(length)) },
);

const hostileNumber: fc.Arbitrary<number> = fc.oneof(
  fc.constantFrom(0, -0, -1, 1, 1.5, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 53 + 2, -(2 ** 63), 1e21, 1e308, 5e-324),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);

export const hostileValue: fc.Arbitrary<Json> = fc.oneof(
  { weight: 4, arbitrary: hostileText },
  { weight: 3, arbitrary: hostileNumber },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Json>(null, true, false, [], {}, [[]], [null], { $ne: null }, { length: 1e9 }),
  },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json> },
  { weight: 1, arbitrary: fc.nat(200).map((depth) => nest(depth)) },
);

/** Values that a schema (with its references in place) lets through, examples and plain ones above all. */
export function validFor(schema: JsonSchema): fc.Arbitrary<Json> {
  const forms = (schema['anyOf'] ?? schema['oneOf']) as JsonSchema[] | undefined;
  if (forms !== undefined) return fc.oneof(...forms.map(validFor));
  if ('const' in schema) return fc.constant(schema['const'] as Json);
  if (Array.isArray(schema['enum'])) return fc.constantFrom(...(schema['enum'] as Json[]));
  const type = schema['type'];
  if (Array.isArray(type)) return fc.oneof(...type.map((one: string) => validFor({ ...schema, type: one })));
  const made = make(schema, type);
  return 'example' in schema ? fc.oneof(fc.constant(schema['example'] as Json), made) : made;
}

function make(schema: JsonSchema, type: unknown): fc.Arbitrary<Json> {
  switch (type) {
    case 'object': {
      const members = Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>);
      const model = Object.fromEntries(members.map(([name, member]) => [name, validFor(member)]));
      return fc.record(model, { requiredKeys: (schema['required'] ?? []) as string[] });
    }
    case 'array':
      return fc.array(validFor((schema['items'] ?? {}) as JsonSchema), { maxLength: 5 });
    case 'string':
      return makeText(schema);
    case 'integer':
      return fc.integer({
        min: Math.max(Number(schema['minimum'] ?? -1_000), -(2 ** 31)),
        max: Math.min(Number(schema['maximum'] ?? 100_000), 2 ** 31 - 1),
      });
    case 'number':
      return fc.double({ noNaN: true, noDefaultInfinity: true });
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    default:
      return fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>;
  }
}

function makeText(schema: JsonSchema): fc.Arbitrary<string> {
  const minLength = Number(schema['minLength'] ?? 0);
  const maxLength = Math.min(Number(schema['maxLength'] ?? 60), 300);
  if (schema['format'] === 'email') return fc.emailAddress();
  const pattern = schema['pattern'];
  if (typeof pattern === 'string' && minLength === 0) return fc.stringMatching(new RegExp(pattern), { size: 'small' });
  return fc.string({ minLength, maxLength });
}

type Spoiling = { kind: 'replace' | 'remove' | 'add' | 'rename'; pick: number; value: Json; name: string };

const spoiling: fc.Arbitrary<Spoiling> = fc.record({
  kind: fc.constantFrom('replace', 'replace', 'replace', 'remove', 'add', 'rename'),
  pick: fc.nat(1_000),
  value: hostileValue,
  name: fc.oneof(fc.constantFrom(...hostileNames), hostileText),
});

/** A valid value with one thing about it changed. */
export function spoiledFor(schema: JsonSchema): fc.Arbitrary<Json> {
  return fc.tuple(validFor(schema), spoiling).map(([value, change]) => spoil(value, change));
}

function spoil(value: Json, change: Spoiling): Json {
  if (typeof value !== 'object' || value === null) return change.value;
  if (Array.isArray(value)) {
    const index = change.pick % (value.length + 1);
    return value.length === index ? [...value, change.value] : value.with(index, spoil(value[index] ?? null, change));
  }
  const names = Object.keys(value);
  const name = names[change.pick % Math.max(1, names.length)];
  if (name === undefined || change.kind === 'add') return withMember(value, change.name, change.value);
  const { [name]: member = null, ...others } = value;
  if (change.kind === 'remove') return others;
  if (change.kind === 'rename') return withMember(others, change.name, member);
  const isNested = typeof member === 'object' && member !== null && change.pick % 2 === 0;
  return withMember(others, name, isNested ? spoil(member, change) : change.value);
}

/** A member of its own even if it is called `__proto__`. */
function withMember(value: { [name: string]: Json }, name: string, member: Json): Json {
  return Object.defineProperty({ ...value }, name, { value: member, enumerable: true, configurable: true });
}

/** JSON text for a schema, most of it one step from right, some of it no JSON. */
export function bodyTextFor(schema: JsonSchema): fc.Arbitrary<string> {
  const valid = validFor(schema).map((value) => JSON.stringify(value));
  return fc.oneof(
    { weight: 3, arbitrary: valid },
    { weight: 12, arbitrary: spoiledFor(schema).map((value) => JSON.stringify(value)) },
    { weight: 3, arbitrary: fc.tuple(valid, fc.nat(400)).map(([text, length]) => text.slice(0, length)) },
    { weight: 1, arbitrary: valid.map((text) => text.replace('{', '{"__proto__":{"status":1,"userId":1},')) },
    { weight: 1, arbitrary: valid.map((text) => `\ufeff${text}`) },
    { weight: 1, arbitrary: valid.map((text) => `${text}${text}`) },
    { weight: 1, arbitrary: valid.map((text) => text.replaceAll('"', "'")) },
    { weight: 1, arbitrary: hostileValue.map((value) => JSON.stringify(value)) },
    { weight: 1, arbitrary: hostileText },
    { weight: 1, arbitrary: fc.constantFrom('[', '{"a":').map((part) => part.repeat(3_000)) },
    {
      weight: 1,
      arbitrary: fc.constantFrom('{"a":1e999}', '{"a":NaN}', '{"a":01}', '{"a":"\u0001"}', 'null', '""', '[]'),
    },
  );
}

function nest(depth: number): Json {
  let value: Json = 'deep';
  for (let level = 0; level < depth; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}
