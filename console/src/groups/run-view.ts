// A run of commands as it is shown: read again until each device has its outcome.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { signal } from '@preact/signals';
import { whenLiveAgain } from '../state/live.ts';
import { session } from '../state/session.ts';

export type Run = Data<Client['bulk'][':bulkId']['$get']>;
export type RunItem = Run['list'][number];

const pageSize = 100;
/** The answer comes at once if all is settled, so late otherwise: first soon, then less often. */
const longestWaitSeconds = 5;

export class RunView {
  readonly bulkId: string;
  readonly run = signal<Run | null>(null);
  /** Of the pages that are shown. */
  readonly items = signal<readonly RunItem[]>([]);
  readonly error = signal<unknown>(null);
  #pages = 1;
  #isReading = false;
  #hasEnded = false;
  readonly #endRetry: () => void;

  constructor(bulkId: string) {
    this.bulkId = bulkId;
    this.#endRetry = whenLiveAgain(() => this.#follow());
    this.#follow();
  }

  end(): void {
    this.#hasEnded = true;
    this.#endRetry();
  }

  get hasMore(): boolean {
    return this.items.value.length < (this.run.value?.total ?? 0);
  }

  /** @throws ApiError, NoAnswerError */
  async readMore(): Promise<void> {
    this.#pages += 1;
    await this.#read();
  }

  /** @throws ApiError, NoAnswerError */
  async pause(paused: boolean): Promise<void> {
    await dataOf(session().api.bulk[':bulkId'].$patch({ param: { bulkId: this.bulkId }, json: { paused } }));
    await this.#read();
    this.#follow();
  }

  #follow(): void {
    if (this.#isReading) return;
    this.#isReading = true;
    this.#readOn()
      .catch((error: unknown) => (this.error.value = error))
      .finally(() => (this.#isReading = false));
  }

  async #readOn(): Promise<void> {
    for (let looks = 0; !this.#hasEnded; looks += 1) {
      await this.#read(looks === 0 ? undefined : String(Math.min(longestWaitSeconds, Math.ceil(looks / 8))));
      this.error.value = null;
      const run = this.run.peek();
      const isHeldUp = run?.state === 'paused' && (run.summary.under_way ?? 0) === 0;
      if (run?.state === 'settled' || isHeldUp) return;
    }
  }

  /** The first page waits, the others are as far then. */
  async #read(wait?: string): Promise<void> {
    const items: RunItem[] = [];
    for (let page = 1; page <= this.#pages; page += 1) {
      const query = { page: String(page), size: String(pageSize), ...(page === 1 && wait !== undefined && { wait }) };
      const run = await dataOf(session().api.bulk[':bulkId'].$get({ param: { bulkId: this.bulkId }, query }));
      if (page === 1) this.run.value = run;
      items.push(...run.list);
    }
    this.items.value = items;
  }
}
