// Waiting for a condition, with a limit and a message that says what was missing. `Changes` belongs to a part that
// notes its own changes; `eventually` asks a remote part again and again. Asserts nothing.
import { setTimeout as sleep } from 'node:timers/promises';

/** Besides noted changes: those inside another process are not noted. */
const lookEveryMs = 10;

export class Changes {
  readonly #waiting = new Set<() => void>();

  note(): void {
    for (const look of [...this.#waiting]) look();
  }

  /** `describe` may be a function, so that the failure can say how far things had got. */
  async until(describe: string | (() => string), isSo: () => boolean, timeoutMs = 90_000): Promise<void> {
    if (isSo()) return;
    await new Promise<void>((resolve, reject) => {
      const end = (finish: () => void): void => {
        clearTimeout(timer);
        clearInterval(looking);
        this.#waiting.delete(look);
        finish();
      };
      const look = (): void => {
        if (isSo()) end(resolve);
      };
      const looking = setInterval(look, lookEveryMs);
      const timer = setTimeout(() => end(() => reject(lateError(describe, timeoutMs))), timeoutMs);
      this.#waiting.add(look);
    });
  }
}

/** Asks until the answer is true. @throws Error with `describe` when that takes longer than `timeoutMs` */
export async function eventually(
  describe: string | (() => string),
  isSo: () => Promise<boolean> | boolean,
  timeoutMs = 90_000,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!(await isSo())) {
    if (performance.now() > deadlineMs) throw lateError(describe, timeoutMs);
    await sleep(20);
  }
}

function lateError(describe: string | (() => string), timeoutMs: number): Error {
  return new Error(`not within ${timeoutMs} ms: ${typeof describe === 'string' ? describe : describe()}`);
}
