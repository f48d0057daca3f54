// Something that the service changes by itself: read again every few seconds while it goes on and the page is looked at.
import { signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { whenLiveAgain } from '../state/live.ts';

const lookEveryMs = 3_000;

class Followed<Value> {
  /** null until it is there. */
  readonly value = signal<Value | null>(null);
  readonly error = signal<unknown>(null);
  readonly #ask: () => Promise<Value>;
  readonly #endRetry: () => void;
  readonly #timer: ReturnType<typeof setInterval>;
  #asked = 0;
  #isReading = false;

  constructor(ask: () => Promise<Value>, goesOn: (value: Value) => boolean) {
    this.#ask = ask;
    this.#endRetry = whenLiveAgain(() => this.refresh());
    this.#timer = setInterval(() => {
      const value = this.value.peek();
      if (!document.hidden && !this.#isReading && value !== null && goesOn(value)) this.refresh();
    }, lookEveryMs);
  }

  end(): void {
    clearInterval(this.#timer);
    this.#endRetry();
  }

  /** Without a caller who waits for it. */
  refresh(): void {
    this.read().catch((error: unknown) => (this.error.value = error));
  }

  /** @throws ApiError, NoAnswerError */
  async read(): Promise<void> {
    const asked = ++this.#asked;
    this.#isReading = true;
    try {
      const value = await this.#ask();
      // What was asked for before may be answered later.
      if (asked !== this.#asked) return;
      this.value.value = value;
      this.error.value = null;
    } finally {
      if (asked === this.#asked) this.#isReading = false;
    }
  }
}

/** @param version another one has it read at once */
export function useFollowed<Value>(
  ask: () => Promise<Value>,
  goesOn: (value: Value) => boolean,
  version: unknown = 0,
): Followed<Value> {
  const followed = useMemo(() => new Followed(ask, goesOn), []);
  useEffect(() => () => followed.end(), []);
  useEffect(() => followed.refresh(), [version]);
  return followed;
}
