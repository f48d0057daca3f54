// `zod` as the Worker bundles it (wrangler.toml, [alias]): without the error texts in fifty languages, the compiler and
// the schema reader that its own entry drags along and no bundler can drop. A third of the Worker's size.
// test/unit/bundled-zod.test.ts tells when src/ uses a member that is missing here.
export * as z from './zod-members.js';
