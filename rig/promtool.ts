// promtool, Prometheus' own judge of rules and metrics.
import { spawnSync } from 'node:child_process';

/** Why tests with promtool are skipped here, or null if it is installed. */
export const promtoolMissing =
  spawnSync('promtool', ['--version']).error === undefined
    ? null
    : 'promtool is not installed (apt-get install prometheus)';

/** All that it says, to be read where it fails. */
export function runPromtool(args: string[], input = ''): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' });
  return { status, output: stdout + stderr };
}
