// The members of `z` in the bundle, imported by file because zod has no smaller public entry.
export * from '../node_modules/zod/v4/classic/schemas.js';
export { coerce, iso, toJSONSchema } from '../node_modules/zod/v4/classic/external.js';
