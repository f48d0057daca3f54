// Every scenario of the faults suite with small counts, against the same real parts. The full counts are run by
// `npm run test:faults`; nothing is judged more mildly here.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mosquittoMissing } from '../rig/mosquitto.ts';
import { Random } from './random.ts';
import type { WorkerRig } from '../rig/worker-rig.ts';
import { describeFinding } from './scenario.ts';
import { scenarios } from './scenarios.ts';
import { startFaultWorker } from './fault-rig.ts';

const seed = Date.now() % 2 ** 31;
const title = `what the broker accepted is in effect once (--seed ${seed})`;

describe.skipIf(mosquittoMissing !== null)(mosquittoMissing === null ? title : `left out: ${mosquittoMissing}`, () => {
  let worker: WorkerRig;
  beforeAll(async () => {
    worker = await startFaultWorker();
  });
  afterAll(() => worker.stop());

  const named = scenarios.map(({ name, title: what, run }) => [`${name}: ${what}`, run] as const);
  test.each(named)('%s', async (_, run) => {
    const findings = await run({
      worker,
      random: new Random(seed),
      isShort: true,
      count: (_full, short) => short,
      say: () => undefined,
    });
    const missed = findings.filter(({ failures }) => failures.length > 0);
    expect(missed.map(describeFinding)).toEqual([]);
  });
});
