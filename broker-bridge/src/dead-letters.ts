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

  /** Resolves when the line is on the disk. */
  add(letter: Record<string, unknown>): Promise<void> {
    const written = this.#last.then(() => this.#write(`${JSON.stringify(letter)}\n`));
    this.#last = written.catch(() => undefined);
    return written;
  }

  async #write(line: string): Promise<void> {
    const path = join(this.#dir, fileName);
    const sizeBytes = await stat(path).then(
      (found) => found.size,
      () => 0,
    );
    if (sizeBytes > 0 && sizeBytes + line.length > maxFileBytes) await this.#rotate();
    const file = await open(path, 'a', 0o600);
    try {
      await file.appendFile(line);
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
