// Structured log lines: one JSON object each, for Workers observability. Callers never pass secrets or bodies.
import { DrizzleQueryError } from 'drizzle-orm';

type Level = 'info' | 'warn' | 'error';

export function log(level: Level, event: string, fields: Record<string, unknown> = {}): void {
  console[level](JSON.stringify({ level, event, ...fields }));
}

/** What a log may hold of an error. A failed query's own message lists the bound values: password hashes, emails. */
export function describeError(error: unknown): Record<string, unknown> {
  if (error instanceof DrizzleQueryError) return { query: error.query, ...describeError(error.cause) };
  if (error instanceof Error) return { error: error.message, stack: error.stack };
  return { error: String(error) };
}
