// Keeps what the parts print in STATE_DIR/logs: all of it in <part>.log, warnings, errors and text that no part wrote as
// JSON in <part>.errors.log as well. Lines of one kind beyond a rate are counted instead, so that a flood neither fills
// the disk nor moves what matters out of the files. Never shows anything; terminal.ts does.
import { appendFileSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { readLogLine } from './log-line.ts';

type FileLimits = {
  /** Lines of one kind at once. */
  burst: number;
  /** How many more there may be, for each minute that passes. */
  perMinute: number;
};

type Kind = { allowance: number; atMs: number; dropped: number };

const maxFileBytes = 10 * 1024 * 1024;
const maxLineLength = 8 * 1024;
const limits = {
  all: { burst: 200, perMinute: 600 },
  errors: { burst: 50, perMinute: 6 },
} satisfies Record<string, FileLimits>;
/** Kinds that come after so many share one allowance. */
const maxKinds = 500;
const tellDroppedEveryMs = 60_000;

export type PartLog = { keep: (line: string) => void; close: () => void };

/** `onUnwritable` is called once in a row of lines that cannot be written: a full disk must not end the parts. */
export function openPartLog(stateDir: string, part: string, onUnwritable: (error: unknown) => void): PartLog {
  const dir = join(stateDir, 'logs');
  mkdirSync(dir, { recursive: true });
  const all = new LogFile(join(dir, `${part}.log`), limits.all, onUnwritable);
  const errors = new LogFile(join(dir, `${part}.errors.log`), limits.errors, onUnwritable);
  const telling = setInterval(() => tellDropped(), tellDroppedEveryMs).unref();
  const tellDropped = (): void => {
    for (const file of [all, errors]) file.tellDropped();
  };
  return {
    keep: (line) => {
      const { kind, isTrouble } = classify(line);
      all.append(line, kind);
      if (isTrouble) errors.append(line, kind);
    },
    close: () => {
      clearInterval(telling);
      tellDropped();
    },
  };
}

function classify(line: string): { kind: string; isTrouble: boolean } {
  const entry = readLogLine(line);
  if (entry === undefined) return { kind: 'text', isTrouble: true };
  const { level, event, fields } = entry;
  // A refused or failed request must not be counted among those that succeed.
  const details = [fields['route'], fields['code']].map((value) =>
    value === undefined ? '' : ` ${JSON.stringify(value)}`,
  );
  const kind = `${level} ${event}${details.join('')}`;
  return { kind: kind.slice(0, 200), isTrouble: level === 'warn' || level === 'error' };
}

class LogFile {
  readonly #path: string;
  readonly #limits: FileLimits;
  readonly #onUnwritable: (error: unknown) => void;
  readonly #kinds = new Map<string, Kind>();
  #size: number;
  #isUnwritable = false;

  constructor(path: string, fileLimits: FileLimits, onUnwritable: (error: unknown) => void) {
    this.#path = path;
    this.#limits = fileLimits;
    this.#onUnwritable = onUnwritable;
    this.#size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }

  append(line: string, kind: string): void {
    const name = this.#kinds.has(kind) || this.#kinds.size < maxKinds ? kind : 'other';
    const known = this.#kinds.get(name) ?? { allowance: this.#limits.burst, atMs: performance.now(), dropped: 0 };
    this.#kinds.set(name, known);
    this.#refill(known);
    if (known.allowance < 1) {
      known.dropped += 1;
      return;
    }
    known.allowance -= 1;
    this.#write(line.length > maxLineLength ? `${line.slice(0, maxLineLength)}…` : line);
  }

  /** One line for each kind; kinds that have their whole allowance again are forgotten. */
  tellDropped(): void {
    for (const [kind, known] of this.#kinds) {
      if (known.dropped > 0) {
        const time = new Date().toISOString();
        this.#write(JSON.stringify({ time, level: 'info', event: 'log_lines_dropped', kind, lines: known.dropped }));
        known.dropped = 0;
      }
      this.#refill(known);
      if (known.allowance === this.#limits.burst) this.#kinds.delete(kind);
    }
  }

  #refill(known: Kind): void {
    const { burst, perMinute } = this.#limits;
    const nowMs = performance.now();
    known.allowance = Math.min(burst, known.allowance + ((nowMs - known.atMs) / 60_000) * perMinute);
    known.atMs = nowMs;
  }

  #write(line: string): void {
    try {
      if (this.#size > maxFileBytes) {
        renameSync(this.#path, `${this.#path}.1`);
        this.#size = 0;
      }
      // Synchronous, so that the last lines of a part that died are in the file.
      appendFileSync(this.#path, `${line}\n`, { mode: 0o600 });
      this.#size += Buffer.byteLength(line) + 1;
      this.#isUnwritable = false;
    } catch (error) {
      if (!this.#isUnwritable) this.#onUnwritable(error);
      this.#isUnwritable = true;
    }
  }
}
