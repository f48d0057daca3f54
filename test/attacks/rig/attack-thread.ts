// The thread of one attack: runs it each time it is given an effort, and posts the result with the processor time it took.
import { parentPort, workerData } from 'node:worker_threads';
import type { Effort, Result, Target } from './attack.ts';
import { attacks } from '../attack-list.ts';

export type AttackData = { name: string; target: Target };
export type ThreadResult = { result: Result; cpuSeconds: number };

const { name, target } = workerData as AttackData;
const attack = attacks.find((candidate) => candidate.name === name);
if (attack === undefined) throw new Error(`there is no attack ${name}`);
parentPort?.on('message', (effort: Effort) => {
  const before = process.threadCpuUsage();
  // One that fails is a finding like any other: the attacks behind it go on.
  const failed = (error: unknown): Result => ({ tried: 0, answers: {}, problems: [`it failed: ${String(error)}`] });
  void attack.run(target, effort).then(report, (error: unknown) => report(failed(error)));

  function report(result: Result): void {
    const { user, system } = process.threadCpuUsage(before);
    parentPort?.postMessage({ result, cpuSeconds: (user + system) / 1e6 } satisfies ThreadResult);
  }
});
