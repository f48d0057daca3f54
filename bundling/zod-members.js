// The members of `z` in the bundle. By file, because zod exports them in no smaller portion than all of it.
export * from '../node_modules/zod/v4/classic/schemas.js';
export { coerce, iso, toJSONSchema } from '../node_modules/zod/v4/classic/external.js';
