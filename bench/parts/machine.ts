// The machine and the versions of a run, printed with its figures. Complete on Linux alone.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, loadavg, platform, release, totalmem } from 'node:os';
import { mosquittoVersion } from '../../rig/brokers/mosquitto.ts';

export function describeMachine(): string {
  const [cpu, gibibytes] = [cpus()[0]?.model.trim() ?? 'unknown', Math.round(totalmem() / 2 ** 30)];
  const packages = ['workerd', 'miniflare', 'mqtt', 'ws'].map((name) => `${name} ${versionOf(name)}`);
  return [
    `${new Date().toISOString()}  ${cpus().length} x ${cpu}, ${gibibytes} GiB, ${platform()} ${release()}; ${describeLoad()}`,
    `commit ${readCommit()}; node ${process.version}, mosquitto ${mosquittoVersion()}, ${packages.join(', ')}`,
  ].join('\n');
}

/** The averages of the last 1, 5 and 15 minutes: they show other load on the machine. */
export function describeLoad(): string {
  return `load average ${loadavg()
    .map((load) => load.toFixed(2))
    .join(' ')}`;
}

function versionOf(packageName: string): string {
  const path = new URL(`../../node_modules/${packageName}/package.json`, import.meta.url);
  return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version;
}

function readCommit(): string {
  const options = { cwd: import.meta.dirname, encoding: 'utf8' } as const;
  const { status, stdout } = spawnSync('git', ['describe', '--always', '--dirty', '--exclude', '*'], options);
  return status === 0 ? stdout.trim() : 'unknown';
}
