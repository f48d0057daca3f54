// Scenarios as tests, with small counts and against the same real parts. `npm run test:faults` runs the full counts;
// the limits are the same.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mosquittoMissing } from '../../rig/brokers/mosquitto.ts';
import type { WorkerRig } from '../../rig/worker/worker-rig.ts';
import { startFaultWorker } from './rig/fault-rig.ts';
import { Random } from '../../rig/inputs/random.ts';
import { describeFinding, type Scenario } from './rig/scenario.ts';

export function testScenarios(scenarios: Scenario[]): void {
  const seed = Date.now() % 2 ** 31;
  const title = mosquittoMissing ?? `what the broker accepted has its effect once (--seed ${seed})`;
  describe.skipIf(mosquittoMissing !== null)(title, () => {
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
}
