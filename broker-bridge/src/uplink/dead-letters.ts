// Keeps messages that the Worker will never take, each with its reason, for a human to read: one JSON object a line.
// Nothing here is sent again. What it takes of the disk is bounded: the oldest file goes when there are too many.
import { appendFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';

const files = 5;

export class DeadLetters {
  readonly #path: string;
  readonly #maxFileBytes: number;
  /** One writer at a time, so that a rotation cannot cut a line in two. */
  #last: Promise<unknown> = Promise.resolve();

  constructor({ dir, maxBytes }: { dir: string; maxBytes: number }) {
    this.#path = join(dir, 'dead-letters.jsonl');
    this.#maxFileBytes = Math.floor(maxBytes / files);
  }

  /** Resolves when the lines are on the disk. */
  async add(letters: Record<string, unknown>[]): Promise<void> {
    const lines = letters.map((letter) => `${JSON.stringify(letter)}\n`);
    const written = this.#last.then(() => this.#write(lines));
    // The caller hears of a failure; the next writer only waits for the end.
    this.#last = Promise.allSettled([written]);
    return written;
  }

  async #write(lines: string[]): Promise<void> {
    let size = (await stat(this.#path).catch(ignoreMissing))?.size ?? 0;
    let part = '';
    for (const line of lines) {
      const bytes = Buffer.byteLength(line);
      if (size > 0 && size + bytes > this.#maxFileBytes) {
        await this.#append(part);
        await this.#rotate();
        [size, part] = [0, ''];
      }
      size += bytes;
      part += line;
    }
    await this.#append(part);
  }

  async #append(text: string): Promise<void> {
    if (text !== '') await appendFile(this.#path, text, { mode: 0o600, flush: true });
  }

  async #rotate(): Promise<void> {
    const pathOf = (age: number): string => (age === 0 ? this.#path : this.#path.replace(/jsonl$/, `${age}.jsonl`));
    for (let age = files - 2; age >= 0; age -= 1) await rename(pathOf(age), pathOf(age + 1)).catch(ignoreMissing);
  }
}

function ignoreMissing(error: unknown): undefined {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
}
