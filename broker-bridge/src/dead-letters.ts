// Keeps messages that the Worker will never take, each with its reason, for a human to read: one JSON object a line.
// Nothing here is sent again. The oldest file goes when there are too many.
import { appendFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';

const maxFileBytes = 10 * 1024 * 1024;
const olderFiles = 4;

export class DeadLetters {
  readonly #path: string;
  /** One writer at a time, so that a rotation cannot cut a line in two. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(dir: string) {
    this.#path = join(dir, 'dead-letters.jsonl');
  }

  /** Resolves when the lines are on the disk. */
  async add(letters: Record<string, unknown>[]): Promise<void> {
    const lines = letters.map((letter) => `${JSON.stringify(letter)}\n`).join('');
    const written = this.#last.then(() => this.#write(lines));
    // The caller hears of a failure; the next writer only waits for the end.
    this.#last = Promise.allSettled([written]);
    return written;
  }

  async #write(lines: string): Promise<void> {
    const file = await stat(this.#path).catch(ignoreMissing);
    if (file !== undefined && file.size + lines.length > maxFileBytes) await this.#rotate();
    await appendFile(this.#path, lines, { mode: 0o600, flush: true });
  }

  async #rotate(): Promise<void> {
    const pathOf = (age: number): string => (age === 0 ? this.#path : this.#path.replace(/jsonl$/, `${age}.jsonl`));
    for (let age = olderFiles - 1; age >= 0; age -= 1) await rename(pathOf(age), pathOf(age + 1)).catch(ignoreMissing);
  }
}

function ignoreMissing(error: unknown): undefined {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
}
