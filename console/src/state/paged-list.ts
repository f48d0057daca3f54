// A list that is read page by page as it is asked for, and read again in place after a change.
import { signal } from '@preact/signals';

export type Page<Item> = { list: readonly Item[]; total: number };
export type PageQuery = { page: string; size: string };

const pageSize = 50;

export class PagedList<Item> {
  /** null until the first page is there. */
  readonly items = signal<readonly Item[] | null>(null);
  readonly total = signal(0);
  readonly error = signal<unknown>(null);
  readonly #read: (query: PageQuery) => Promise<Page<Item>>;
  readonly #keyOf: (item: Item) => string;

  constructor(read: (query: PageQuery) => Promise<Page<Item>>, keyOf: (item: Item) => string) {
    this.#read = read;
    this.#keyOf = keyOf;
    this.refresh();
  }

  /** As much as is shown, without a caller who waits for it. */
  refresh(): void {
    this.reload().catch((error: unknown) => (this.error.value = error));
  }

  get hasMore(): boolean {
    return (this.items.value?.length ?? 0) < this.total.value;
  }

  /** @throws ApiError, NoAnswerError */
  async readMore(): Promise<void> {
    const known = this.items.value ?? [];
    const { list, total } = await this.#readPage(Math.floor(known.length / pageSize) + 1);
    const keys = new Set(known.map(this.#keyOf));
    const added = list.filter((item) => !keys.has(this.#keyOf(item)));
    this.items.value = [...known, ...added];
    // Items that went away meanwhile have moved others onto pages that were read: the end is the end.
    this.total.value = added.length === 0 ? this.items.value.length : total;
  }

  /** As much as is shown. @throws ApiError, NoAnswerError */
  async reload(): Promise<void> {
    const pages = Math.max(1, Math.ceil((this.items.value?.length ?? 0) / pageSize));
    const read: Item[] = [];
    for (let page = 1; page <= pages; page += 1) {
      const { list, total } = await this.#readPage(page);
      read.push(...list);
      this.total.value = total;
    }
    this.items.value = read;
    this.error.value = null;
  }

  #readPage(page: number): Promise<Page<Item>> {
    return this.#read({ page: String(page), size: String(pageSize) });
  }
}
