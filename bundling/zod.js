// `zod` as the Worker bundles it (wrangler.toml, [alias]). zod's own entry also loads error texts in fifty languages, its
// compiler and its schema reader, which no bundler can remove: a third of the Worker's size.
// test/unit/bundled-zod.test.ts fails when src/ uses a member that is missing in zod-members.js.
export * as z from './zod-members.js';
