// Asks the spool's thread: a flush blocks for as long as the disk takes, and must not block the broker or commands.
// Answers come in the order of the requests. It decides nothing about when to ask or what to do after a failure.
import { Worker } from 'node:worker_threads';
import type { OpenedSpool, SpoolDatabase, SpoolItem } from './database.ts';

export type SpoolThreadOptions = { dir: string; bridgeId: string; lockWaitMs: number };

export type SpoolMethod = 'commit' | 'read' | 'readThese' | 'close';
export type SpoolArguments = { [M in SpoolMethod]: Parameters<SpoolDatabase[M]> };
export type SpoolRequest<M extends SpoolMethod> = { method: M; args: SpoolArguments[M] };

/** `value` is what the method returned; the first answer is the opened spool. */
export type SpoolAnswer = { value: unknown } | { failure: string; isByDisk?: boolean };

/** The spool cannot be opened now; it may be later. */
export class DiskRefusal extends Error {}

export class SpoolThread {
  /** An error that the thread does not catch has no listener here: it ends the process. */
  readonly #worker: Worker;
  readonly #waiting: ((answer: SpoolAnswer) => void)[] = [];

  private constructor(options: SpoolThreadOptions) {
    this.#worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: options });
    this.#worker.on('message', (answer: SpoolAnswer) => this.#waiting.shift()?.(answer));
  }

  /** @throws Error that says what to do if the database cannot be opened */
  static async start(options: SpoolThreadOptions): Promise<{ thread: SpoolThread; state: OpenedSpool }> {
    const thread = new SpoolThread(options);
    return { thread, state: (await thread.#next()) as OpenedSpool };
  }

  /** A Buffer loses its prototype between threads: it arrives as a plain Uint8Array. */
  async read<M extends 'read' | 'readThese'>(method: M, args: SpoolArguments[M]): Promise<SpoolItem[]> {
    const items = await this.call(method, args);
    return items.map((item) => ({ ...item, payload: Buffer.from(item.payload.buffer) }));
  }

  /** Rejects when the disk refuses, and then may be asked again. */
  call<M extends SpoolMethod>(method: M, args: SpoolArguments[M]): Promise<ReturnType<SpoolDatabase[M]>> {
    this.#worker.postMessage({ method, args } satisfies SpoolRequest<M>);
    return this.#next() as Promise<ReturnType<SpoolDatabase[M]>>;
  }

  async #next(): Promise<unknown> {
    const answer = await new Promise<SpoolAnswer>((resolve) => this.#waiting.push(resolve));
    if ('failure' in answer) throw new (answer.isByDisk === true ? DiskRefusal : Error)(answer.failure);
    return answer.value;
  }
}
