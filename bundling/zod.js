// `z` as the Worker bundles it, imported by file because zod has no smaller public entry: its own also loads error texts in
// fifty languages, its compiler and its schema reader. The build fails where src/ uses a member that is missing here.
import { number } from '../node_modules/zod/v4/classic/coerce.js';
import { datetime } from '../node_modules/zod/v4/classic/iso.js';

export * from '../node_modules/zod/v4/classic/schemas.js';
export const coerce = { number };
export const iso = { datetime };
