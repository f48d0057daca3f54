// One sender of the long run, in a thread of its own: posts how many were sent from time to time, and its result at the end.
import { parentPort, workerData } from 'node:worker_threads';
import { Tally, type Result, type Target } from './attack.ts';
import { generated, HostileSender } from './hostile-sender.ts';
import { times } from './traffic.ts';

export type LongRunData = { target: Pick<Target, 'url' | 'own'>; inputs: number; clients: number; seed: number };
export type LongRunMessage = { sent: number } | { result: Result; operations: number };

const { target, inputs, clients, seed } = workerData as LongRunData;
const post = (message: LongRunMessage) => parentPort?.postMessage(message);
const tally = new Tally();
const sender = await HostileSender.prepare(target, tally);
const timer = setInterval(() => post({ sent: tally.tried }), 1_000);
// Some of what is generated is left out or cannot be sent: it goes on until enough were.
for (let round = 0; tally.tried < inputs; round += 1) {
  const missing = inputs - tally.tried;
  for (const batch of generated(sender.arbitrary, missing, Infinity, seed + round * 1_000_003)) {
    await times(clients, batch.length, async (index) => {
      const input = batch[index];
      if (input !== undefined) await sender.send(input);
    });
  }
}
await sender.end();
clearInterval(timer);
post({ result: tally.result(), operations: sender.operations });
