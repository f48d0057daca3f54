// Asks the spool's thread: a flush blocks for as long as the disk takes, and must not block the broker or commands.
// Answers come in the order of the requests. It decides nothing about when to ask or what to do after a failure.
import { Worker } from 'node:worker_threads';
import type { OpenedSpool, SpoolDatabase, SpoolGroup, SpoolItem } from './database.ts';

export type SpoolThreadOptions = { dir: string; bridgeId: string; lockWaitMs: number };

type SpoolMethod = 'commit' | 'read' | 'readThese' | 'close';
export type SpoolRequest = { method: SpoolMethod; args: unknown[] };

/** `value` is what the method returned; the first answer is the opened spool. */
export type SpoolAnswer = { value: unknown } | { failure: string };

export class SpoolThread {
  /** An error that the thread does not catch has no listener here: it ends the process. */
  readonly #worker: Worker;
  readonly #waiting: ((answer: SpoolAnswer) => void)[] = [];

  private constructor(options: SpoolThreadOptions) {
    this.#worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: options });
    this.#worker.on('message', (answer: SpoolAnswer) => this.#waiting.shift()?.(answer));
  }

  /** @throws Error that says what to do where the database cannot be opened */
  static async start(options: SpoolThreadOptions): Promise<{ thread: SpoolThread; state: OpenedSpool }> {
    const thread = new SpoolThread(options);
    return { thread, state: (await thread.#next()) as OpenedSpool };
  }

  /** Resolves when both would survive a power cut; rejects when the disk refuses, and then may be asked again. */
  async commit(group: SpoolGroup | null, doneSeqs: Float64Array): Promise<void> {
    const transfer = group === null ? [] : [group.numbers.buffer, group.payloads.buffer];
    await this.#call('commit', [group, doneSeqs], transfer);
  }

  async read(...args: Parameters<SpoolDatabase['read']>): Promise<SpoolItem[]> {
    return restoreBuffers(await this.#call('read', args));
  }

  async readThese(seqs: number[]): Promise<SpoolItem[]> {
    return restoreBuffers(await this.#call('readThese', [seqs]));
  }

  async close(): Promise<void> {
    await this.#call('close', []);
  }

  #call<M extends SpoolMethod>(
    method: M,
    args: Parameters<SpoolDatabase[M]>,
    transfer: ArrayBuffer[] = [],
  ): Promise<ReturnType<SpoolDatabase[M]>> {
    this.#worker.postMessage({ method, args } satisfies SpoolRequest, transfer);
    return this.#next() as Promise<ReturnType<SpoolDatabase[M]>>;
  }

  async #next(): Promise<unknown> {
    const answer = await new Promise<SpoolAnswer>((resolve) => this.#waiting.push(resolve));
    if ('failure' in answer) throw new Error(answer.failure);
    return answer.value;
  }
}

/** A Buffer arrives as what it is made of. */
function restoreBuffers(items: SpoolItem[]): SpoolItem[] {
  return items.map((item) => ({ ...item, payload: Buffer.from(item.payload.buffer) }));
}
