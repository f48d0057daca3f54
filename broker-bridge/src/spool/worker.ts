// What the spool's thread runs: opens the database and answers one request after the other, in the order in which they
// come. It must not retry or log: the caller decides what follows from a failure.
import { setTimeout as wait } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { describeError } from '../../../node-service/log.ts';
import { isByDisk, openDatabase, type SpoolDatabase } from './database.ts';
import type { SpoolAnswer, SpoolArguments, SpoolMethod, SpoolRequest, SpoolThreadOptions } from './thread.ts';

const lockRetryMs = 100;

if (parentPort === null) throw new Error('this is not a program: the spool starts it as a thread');
const port = parentPort;
const { dir, bridgeId, lockWaitMs } = workerData as SpoolThreadOptions;

/** Waits for a bridge that is leaving. */
async function waitForDatabase(): Promise<SpoolDatabase> {
  const giveUpAtMs = Date.now() + lockWaitMs;
  for (;;) {
    const database = openDatabase(dir);
    if (database !== null) return database;
    if (Date.now() >= giveUpAtMs) {
      throw new Error('SPOOL_DIR is in use by another bridge: give each bridge a folder of its own');
    }
    await wait(lockRetryMs);
  }
}

try {
  const database = await waitForDatabase();
  const methods: { [M in SpoolMethod]: (...args: SpoolArguments[M]) => unknown } = database;
  const state = database.readState(bridgeId);
  port.on('message', <M extends SpoolMethod>({ method, args }: SpoolRequest<M>) => {
    try {
      port.postMessage({ value: methods[method](...args) } satisfies SpoolAnswer);
    } catch (error) {
      port.postMessage({ failure: describeError(error) } satisfies SpoolAnswer);
    }
    if (method === 'close') port.close();
  });
  port.postMessage({ value: state } satisfies SpoolAnswer);
} catch (error) {
  port.postMessage({ failure: describeError(error), isByDisk: isByDisk(error) } satisfies SpoolAnswer);
}
