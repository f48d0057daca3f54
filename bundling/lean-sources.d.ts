/** The text of the source file at `path` without what only the reference and migrations need, its lines where they were. */
export function leanSource(path: string): string;
