// Pieces of the HTTP schemas: texts, ids, times, named objects and pages. The schemas of each resource are in the files beside it.
import { z } from '@hono/zod-openapi';

export function textSchema(min: number, max: number) {
  return limitedText(/^[^\u0000]*$/, 'must not contain NUL', min, max);
}

export function lineSchema(min: number, max: number) {
  return limitedText(/^[^\u0000-\u001f\u007f]*$/, 'must not contain control characters', min, max);
}

function limitedText(pattern: RegExp, problem: string, min: number, max: number) {
  const isWithin = (text: string) => {
    const length = Array.from(text).length;
    // Lone surrogates would be stored as U+FFFD, and two different texts as the same one.
    return length >= min && length <= max && text.isWellFormed();
  };
  return z
    .string()
    .regex(pattern, problem)
    .refine(isWithin, `must have ${min} to ${max} characters`)
    .openapi({ minLength: min, maxLength: max });
}

/** An object under its name in the reference. */
export function objectSchema<Members extends z.ZodRawShape>(name: string, members: Members) {
  return z.object(members).openapi(name);
}

/** Of a schema with a name: `nullable` would make null a value of the name itself, or of nothing. */
export function orNull<Schema extends z.ZodType>(schema: Schema) {
  return z.union([schema, z.null()]);
}

/** As `objectSchema`, for bodies in which an unknown member is a mistake. */
export function strictSchema<Members extends z.ZodRawShape>(name: string, members: Members) {
  return z.strictObject(members).openapi(name);
}

export function distinctSchema<Item extends z.ZodString>(item: Item, min: number, max: number) {
  const isDistinct = (list: string[]) => new Set(list).size === list.length;
  return z.array(item).min(min).max(max).refine(isDistinct, 'must not repeat an entry');
}

/** A larger page is cut to this (decision: devices). */
const maxPageSize = 100;

/** Ids of paths and answers: any text, because what has not the form of an id is not found. */
export const deviceIdSchema = z.string().openapi({ example: 'dev_8k2m4n6p' });
export const anyProductKeySchema = z.string().openapi({ example: 'servo-switch' });
export const deviceSNSchema = z.string().openapi({ example: 'SN-0001' });
export const newSerialSchema = deviceSNSchema.regex(/^[\x20-\x7e]{1,64}$/, 'must be 1 to 64 printable characters');
export const shortIdSchema = z.string().openapi({ example: '3h5k7m9p2q4r6s8t' });

export const instantSchema = z.iso.datetime().openapi({ example: '2026-03-01T12:00:00.000Z' });

export const pageQuery = {
  page: z
    .string()
    .regex(/^0*[1-9]\d{0,8}$/, 'must be an integer from 1')
    .default('1')
    .transform(Number)
    .openapi({ type: 'integer', minimum: 1, maximum: 999_999_999, default: 1, example: 1 }),
  size: z
    .string()
    .regex(/^0*[1-9]\d{0,15}$/, 'must be an integer from 1')
    .default('20')
    .transform((text) => Math.min(Number(text), maxPageSize))
    .openapi({ type: 'integer', minimum: 1, default: 20, description: `Cut to ${maxPageSize}.`, example: 20 }),
};

/** Where a list that is read to its end goes on. The text is for the service alone. */
export const cursorSchema = z
  .string()
  .regex(/^(?:[0-9a-z]{1,9}-[0-9a-z]{1,9})?$/, 'must be empty or `next` of an answer')
  .transform((text) => {
    if (text === '') return 'begin';
    const [createdAt = 0, id = 0] = text.split('-').map((part) => parseInt(part, 36));
    return { createdAt, id };
  })
  .openapi({
    type: 'string',
    description: 'In place of `page`, to read a list to its end: empty, then `next` of each answer.',
  });

export function pageSchema<T extends z.ZodType>(item: T) {
  return z.object({
    list: z.array(item),
    total: z.int().min(0).openapi({ example: 1 }),
    page: z.int().min(1).openapi({ example: 1 }),
    size: z.int().min(1).max(maxPageSize).openapi({ example: 20 }),
  });
}

/** Pages of one object: `Serial` is listed in `SerialPage`. */
export function objectPageSchema<Members extends z.ZodRawShape>(name: string, members: Members) {
  return pageSchema(objectSchema(name, members)).openapi(`${name}Page`);
}
