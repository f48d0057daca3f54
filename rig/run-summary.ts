// Prints at the end of a run what the summary only counts: which tests were skipped, and what was missing for them.
import { spawnSync } from 'node:child_process';
import type { Reporter, TestModule, Vitest } from 'vitest/node';
import { homeClientMissing, mosquittoClientsMissing, pahoMissing } from './brokers/foreign-clients.ts';
import { mosquittoMissing } from './brokers/mosquitto.ts';
import { dynamicSecurityMissing } from './brokers/mosquitto-dynamic-security.ts';
import { rabbitmqMissing } from './brokers/rabbitmq.ts';

const prlimitMissing =
  spawnSync('prlimit', ['--version']).status === 0 ? null : 'prlimit is not installed (apt-get install util-linux)';

export default class RunSummary implements Reporter {
  #isFiltered = false;

  onInit(vitest: Vitest): void {
    this.#isFiltered = vitest.config.testNamePattern !== undefined;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    if (this.#isFiltered) return;
    const untold = modules.flatMap((module) => [...module.children.allTests('skipped')]);
    if (untold.length === 0) return;
    const files = new Set(untold.map(({ module }) => module.relativeModuleId));
    const missing = new Set([
      ...[mosquittoMissing, dynamicSecurityMissing, rabbitmqMissing, prlimitMissing],
      ...[mosquittoClientsMissing, pahoMissing, homeClientMissing],
    ]);
    missing.delete(null);
    const reasons = missing.size === 0 ? ['see their files'] : [...missing];
    console.log(`\n${untold.length} tests were skipped: ${reasons.join('; ')}`);
    for (const file of files) console.log(`  ${file}`);
  }
}
