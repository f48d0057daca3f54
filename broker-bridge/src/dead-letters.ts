// Keeps messages that the Worker will never take, each with its reason, for a human to read: one JSON object a line.
// Nothing here is ever sent again. Old files go when there are too many.
import { open, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';

const fileName = 'dead-letters.jsonl';
const maxFileBytes = 10 * 1024 * 1024;
const maxFiles = 5;

export class DeadLetters {
  readonly #dir: string;
  /** One writer at a time, so that a rotation cannot cut a line in two. */
  #last: Promise<void> = Promise.resolve();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Resolves when the lines are on the disk. */
  add(letters: Record<string, unknown>[]): Promise<void> {
    const lines = letters.map((letter) => `${JSON.stringify(letter)}\n`).join('');
    const written = this.#last.then(() => this.#write(lines));
    this.#last = written.catch(() => undefined);
    return written;
  }

  async #write(lines: string): Promise<void> {
    const path = join(this.#dir, fileName);
    const sizeBytes = await stat(path).then(
      (found) => found.size,
      () => 0,
    );
    if (sizeBytes > 0 && sizeBytes + lines.length > maxFileBytes) await this.#rotate();
    const file = await open(path, 'a', 0o600);
    try {
      await file.appendFile(lines);
      await file.datasync();
    } finally {
      await file.close();
    }
  }

  async #rotate(): Promise<void> {
    const pathOf = (age: number): string => join(this.#dir, age === 0 ? fileName : `dead-letters.${age}.jsonl`);
    for (let age = maxFiles - 2; age >= 0; age -= 1) await rename(pathOf(age), pathOf(age + 1)).catch(() => undefined);
  }
}
