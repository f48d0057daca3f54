// Asks the spool's thread: a flush blocks for as long as the disk takes, and must not block the broker or commands.
// Answers come in the order of the requests. It decides nothing about when to ask or what to do after a failure.
import { Worker } from 'node:worker_threads';
import type { OpenedSpool, SpoolGroup, SpoolItem } from './spool-database.ts';

export type SpoolThreadOptions = { dir: string; bridgeId: string; lockWaitMs: number };

export type SpoolRequest =
  | { kind: 'commit'; group: SpoolGroup | null; doneSeqs: Float64Array }
  | { kind: 'read'; afterSeq: number; maxItems: number; maxBytes: number }
  | { kind: 'close' };

export type SpoolAnswer =
  | { kind: 'opened'; state: OpenedSpool }
  | { kind: 'committed' | 'closed' }
  | { kind: 'read'; items: SpoolItem[] }
  | { kind: 'failed'; cause: string };

export class SpoolThread {
  /** An error that the thread does not catch has no listener here: it ends the process. */
  readonly #worker: Worker;
  readonly #waiting: ((answer: SpoolAnswer) => void)[] = [];

  private constructor(options: SpoolThreadOptions) {
    this.#worker = new Worker(new URL('./spool-worker.ts', import.meta.url), { workerData: options });
    this.#worker.on('message', (answer: SpoolAnswer) => this.#waiting.shift()?.(answer));
  }

  /** @throws Error that says what to do where the database cannot be opened */
  static async start(options: SpoolThreadOptions): Promise<{ thread: SpoolThread; state: OpenedSpool }> {
    const thread = new SpoolThread(options);
    const answer = await thread.#next();
    if (answer.kind === 'opened') return { thread, state: answer.state };
    throw new Error(answer.kind === 'failed' ? answer.cause : `the spool's thread began with "${answer.kind}"`);
  }

  /** Resolves when both would survive a power cut; rejects when the disk refuses, and then may be asked again. */
  async commit(group: SpoolGroup | null, doneSeqs: Float64Array): Promise<void> {
    const transfer = group === null ? [] : [group.numbers.buffer, group.payloads.buffer];
    await this.#ask({ kind: 'commit', group, doneSeqs }, transfer);
  }

  async read(afterSeq: number, maxItems: number, maxBytes: number): Promise<SpoolItem[]> {
    const answer = await this.#ask({ kind: 'read', afterSeq, maxItems, maxBytes });
    if (answer.kind !== 'read') return [];
    // A Buffer arrives as what it is made of.
    return answer.items.map((item) => ({ ...item, payload: Buffer.from(item.payload.buffer) }));
  }

  async close(): Promise<void> {
    await this.#ask({ kind: 'close' });
  }

  async #ask(request: SpoolRequest, transfer: ArrayBuffer[] = []): Promise<SpoolAnswer> {
    this.#worker.postMessage(request, transfer);
    const answer = await this.#next();
    if (answer.kind === 'failed') throw new Error(answer.cause);
    return answer;
  }

  #next(): Promise<SpoolAnswer> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
