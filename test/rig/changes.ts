// Waits for a condition that something else brings about: looked at whenever a change is noted, and often besides,
// because nobody notes what happens inside the bridge. Given up after a while with the name of what was missing.

const lookEveryMs = 10;

export class Changes {
  readonly #waiting = new Set<() => void>();

  note(): void {
    for (const look of [...this.#waiting]) look();
  }

  /** `describe` may be a function, so that the failure can say how far things had got. */
  async until(describe: string | (() => string), isSo: () => boolean, timeoutMs = 10_000): Promise<void> {
    if (isSo()) return;
    await new Promise<void>((resolve, reject) => {
      const look = (): void => {
        if (!isSo()) return;
        clearTimeout(timer);
        clearInterval(looking);
        this.#waiting.delete(look);
        resolve();
      };
      const looking = setInterval(() => look(), lookEveryMs);
      const timer = setTimeout(() => {
        clearInterval(looking);
        this.#waiting.delete(look);
        const what = typeof describe === 'string' ? describe : describe();
        reject(new Error(`not within ${timeoutMs} ms: ${what}`));
      }, timeoutMs);
      this.#waiting.add(look);
    });
  }
}
