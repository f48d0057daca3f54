// The thread of one attack: runs it and posts its result.
import { parentPort, workerData } from 'node:worker_threads';
import type { Effort, Result, Target } from './attack.ts';
import { attacks } from './attack-list.ts';

export type AttackData = { name: string; target: Target; effort: Effort };

const { name, target, effort } = workerData as AttackData;
const attack = attacks.find((one) => one.name === name);
if (attack === undefined) throw new Error(`there is no attack ${name}`);
const result: Result = await attack.run(target, effort);
parentPort?.postMessage(result);
