// Structured log lines: one JSON object each, for Workers observability. Callers never pass secrets or bodies.

type Level = 'info' | 'warn' | 'error';

export function log(level: Level, event: string, fields: Record<string, unknown> = {}): void {
  console[level](JSON.stringify({ level, event, ...fields }));
}
