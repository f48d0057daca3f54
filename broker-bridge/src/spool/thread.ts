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

/** @throws Error that says what to do if the database cannot be opened */
export async function startSpoolThread(options: SpoolThreadOptions) {
  // An error that the thread does not catch has no listener here: it ends the process.
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { workerData: options });
  const waiting: ((answer: SpoolAnswer) => void)[] = [];
  worker.on('message', (answer: SpoolAnswer) => waiting.shift()?.(answer));

  const next = async (): Promise<unknown> => {
    const answer = await new Promise<SpoolAnswer>((resolve) => waiting.push(resolve));
    if ('failure' in answer) throw new (answer.isByDisk === true ? DiskRefusal : Error)(answer.failure);
    return answer.value;
  };

  /** Rejects when the disk refuses, and then may be asked again. */
  const call = <M extends SpoolMethod>(method: M, args: SpoolArguments[M]) => {
    worker.postMessage({ method, args } satisfies SpoolRequest<M>);
    return next() as Promise<ReturnType<SpoolDatabase[M]>>;
  };

  /** A Buffer loses its prototype between threads: it arrives as a plain Uint8Array. */
  const read = async <M extends 'read' | 'readThese'>(method: M, args: SpoolArguments[M]): Promise<SpoolItem[]> => {
    const items = await call(method, args);
    return items.map((item) => ({ ...item, payload: Buffer.from(item.payload.buffer) }));
  };

  return { call, read, state: (await next()) as OpenedSpool };
}
