// Keeps messages that the Worker will never take, each with its reason, for a human to read: one JSON object a line.
// Nothing here is sent again. What it takes of the disk is bounded: the oldest file goes when there are too many.
import { appendFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';

const files = 5;

export type DeadLetters = ReturnType<typeof openDeadLetters>;

export function openDeadLetters({ dir, maxBytes }: { dir: string; maxBytes: number }) {
  const path = join(dir, 'dead-letters.jsonl');
  const maxFileBytes = Math.floor(maxBytes / files);
  /** One writer at a time, so that a rotation cannot cut a line in two. */
  let last: Promise<unknown> = Promise.resolve();
  return { add };

  /** Resolves when they are on the disk. They come from one batch, which is smaller than a file. */
  async function add(letters: Record<string, unknown>[]): Promise<void> {
    const written = last.then(() => write(letters.map((letter) => `${JSON.stringify(letter)}\n`).join('')));
    // The caller hears of a failure; the next writer only waits for the end.
    last = Promise.allSettled([written]);
    return written;
  }

  async function write(lines: string): Promise<void> {
    const size = (await stat(path).catch(ignoreMissing))?.size ?? 0;
    if (size > 0 && size + Buffer.byteLength(lines) > maxFileBytes) await rotate();
    await appendFile(path, lines, { mode: 0o600, flush: true });
  }

  async function rotate(): Promise<void> {
    const pathOf = (age: number): string => (age === 0 ? path : path.replace(/jsonl$/, `${age}.jsonl`));
    for (let age = files - 2; age >= 0; age -= 1) await rename(pathOf(age), pathOf(age + 1)).catch(ignoreMissing);
  }
}

function ignoreMissing(error: unknown): undefined {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
}
