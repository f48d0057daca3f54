// Structured log lines: one JSON object each, for Workers observability. Callers pass no secrets and no bodies; what
// slips through in a caller's own text is cut and masked here.
import { DrizzleQueryError } from 'drizzle-orm';

type Level = 'info' | 'warn' | 'error';

const maxTextLength = 256;
const longTexts = ['stack', 'query', 'error'];
const maxLongTextLength = 4096;
/** Emails, signed tokens, and the prefix forms of contract 2.3 and 2.7, and secrets of webhooks. */
const confidential = /[^\s"@]+@[^\s"@]+\.[^\s"@]+|\beyJ[\w-]+\.[\w.-]+|\b(?:sk|tk|rt|dt|pr|whsec)_[A-Za-z0-9+/]{6,}/g;

let infoShare = 1;
let maxInfoPerSecond = Infinity;
let present = { second: 0, written: 0, leftOut: 0 };

/** A share of the `info` lines is written, and so many a second. The next second reports how many were left out. */
export function sampleInfoLines(share: number, perSecond: number): void {
  infoShare = share;
  maxInfoPerSecond = perSecond;
}

type Fields = Record<string, unknown>;

/** @param fields a function if making them takes time: it is called for lines that are written */
export function log(level: Level, event: string, fields: Fields | (() => Fields) = {}): void {
  if (level === 'info' && (Math.random() >= infoShare || !hasRoomForInfo())) return;
  const members = typeof fields === 'function' ? fields() : fields;
  console[level](JSON.stringify({ level, event, ...members }, mask));
}

function hasRoomForInfo(): boolean {
  const second = Math.floor(Date.now() / 1000);
  if (second !== present.second) {
    const { leftOut } = present;
    present = { second, written: 0, leftOut: 0 };
    if (leftOut > 0) log('warn', 'info lines left out', { lines: leftOut });
  }
  const hasRoom = present.written < maxInfoPerSecond;
  if (hasRoom) present.written += 1;
  else present.leftOut += 1;
  return hasRoom;
}

/** What a log may hold of an error. A failed query's own message lists the bound values: password hashes, emails. */
export function describeError(error: unknown): Record<string, unknown> {
  if (error instanceof DrizzleQueryError) return { query: error.query, ...describeError(error.cause) };
  if (error instanceof Error) return { error: error.message, stack: error.stack };
  return { error: String(error) };
}

function mask(name: string, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  return value.slice(0, longTexts.includes(name) ? maxLongTextLength : maxTextLength).replace(confidential, '[masked]');
}
