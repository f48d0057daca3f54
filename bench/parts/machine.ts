// The machine and the versions of a run, printed with its figures. Complete on Linux alone.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, loadavg, platform, release, totalmem } from 'node:os';
import { mosquittoVersion } from '../../rig/brokers/mosquitto.ts';

export type Machine = {
  date: string;
  cpu: string;
  cores: number;
  memoryGiB: number;
  system: string;
  versions: Record<string, string>;
  commit: string;
  loadAverageBefore: number[];
};

export function describeMachine(): Machine {
  return {
    date: new Date().toISOString(),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${platform()} ${release()}`,
    versions: {
      node: process.version,
      mosquitto: mosquittoVersion(),
      ...Object.fromEntries(['workerd', 'miniflare', 'mqtt', 'ws'].map((name) => [name, versionOf(name)])),
    },
    commit: readCommit(),
    loadAverageBefore: readLoadAverage(),
  };
}

/** The averages of the last 1, 5 and 15 minutes: they show other load on the machine. */
export function readLoadAverage(): number[] {
  return loadavg().map((load) => Math.round(load * 100) / 100);
}

function versionOf(packageName: string): string {
  const path = new URL(`../../node_modules/${packageName}/package.json`, import.meta.url);
  return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version;
}

function readCommit(): string {
  const git = (...given: string[]): string =>
    execFileSync('git', given, { cwd: import.meta.dirname, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const changed = git('status', '--porcelain', '--', '../../src', '../../broker-bridge/src').trim();
    return `${git('rev-parse', '--short', 'HEAD').trim()}${changed === '' ? '' : ' with changes'}`;
  } catch (error) {
    return `unknown (${error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)})`;
  }
}
