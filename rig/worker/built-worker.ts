// Builds the Worker as `wrangler deploy` would and runs the result as a process of its own (worker-process.ts): for
// `npm start`, tests, faults and benchmarks. Knows nothing of brokers and bridges.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { makeTempDir } from '../temp-dirs.ts';
import type { WorkerOptions } from './worker-process.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Kills every process of a group at once, or sends another signal; false if there was none. */
export function killGroup(groupId: number, signal: NodeJS.Signals = 'SIGKILL'): boolean {
  try {
    process.kill(-groupId, signal);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}

/** @throws Error with wrangler's own output when the Worker does not build. */
export async function buildWorker(buildDir: string): Promise<void> {
  mkdirSync(buildDir, { recursive: true });
  const wrangler = join(root, 'node_modules/wrangler/bin/wrangler.js');
  const child = spawn(process.execPath, [wrangler, 'deploy', '--dry-run', '--outdir', buildDir], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      // The build commands of wrangler.toml run this Node, too.
      PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter),
      WRANGLER_SEND_METRICS: 'false',
      WRANGLER_HIDE_BANNER: 'true',
      FORCE_COLOR: '0',
    },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [exitCode] = (await once(child, 'close')) as [number | null];
  if (exitCode !== 0) throw new Error(`The Worker does not build:\n${output.trim()}`);
  // Its own pages: another build, or a checkout, changes those of the repository while this one is served.
  const pagesDir = join(buildDir, 'public');
  rmSync(pagesDir, { recursive: true, force: true });
  cpSync(join(root, 'public'), pagesDir, { recursive: true });
}

/** Spawns worker-process.ts as leader of its own process group, because workerd outlives a killed parent. */
export function spawnWorker(options: WorkerOptions): ChildProcess {
  mkdirSync(join(options.stateDir, 'worker'), { recursive: true });
  // Miniflare leaves a folder there when it is killed.
  const tempDir = join(options.stateDir, 'tmp');
  rmSync(tempDir, { recursive: true, force: true });
  mkdirSync(tempDir);
  const node = [process.execPath, join(root, 'rig/worker/worker-process.ts')];
  const { hostsFile } = options;
  const [command = '', ...args] = hostsFile === undefined ? node : [...withHosts(hostsFile), ...node];
  return spawn(command, args, {
    cwd: root,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: {
      ...process.env,
      TMPDIR: tempDir,
      WRANGLER_LOG: 'error',
      // By default a file in the home folder at each start.
      WRANGLER_LOG_PATH: tempDir,
      WRANGLER_SEND_METRICS: 'false',
      // wrangler and Miniflare are 20 MB of JavaScript, parsed at every start and restart.
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(options.buildDir, '../compile-cache'),
      // SCHEDULE_SECONDS may be among them.
      ...options.bindings,
      WORKER_OPTIONS: JSON.stringify(options),
    },
  });
}

/** The beginning of a command for which names resolve as in that file. The machine stays as it is. */
export function withHosts(hostsFile: string): string[] {
  return ['unshare', '--map-root-user', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/hosts && exec "$@"', hostsFile];
}

export type BuiltWorker = { url: string; pid: number; stop: () => Promise<void> };

let bundle: Promise<string> | undefined;

/** The folder of the bundle that `wrangler deploy` would upload, built once a process. */
export function buildOnce(): Promise<string> {
  const buildDir = join(makeTempDir('bundle'), 'build');
  return (bundle ??= buildWorker(buildDir).then(() => buildDir));
}

/** Builds the Worker once a process, unless it is given one. Port 0 is any free one; `onLine` is called with the log lines. */
export async function startBuiltWorker(
  options: Omit<WorkerOptions, 'buildDir' | 'host'> & { buildDir?: string; onLine?: (line: string) => void },
): Promise<BuiltWorker> {
  const child = spawnWorker({ ...options, buildDir: options.buildDir ?? (await buildOnce()), host: '127.0.0.1' });
  const lastLines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    createInterface({ input: stream }).on('line', (line) => {
      options.onLine?.(line);
      lastLines.push(line);
      if (lastLines.length > 20) lastLines.shift();
    });
  }
  const pid = child.pid ?? 0;
  const exited = once(child, 'exit').then(() => killGroup(pid));
  const first = await Promise.race([once(child, 'message'), exited]);
  if (!Array.isArray(first)) throw new Error(`The Worker did not start.\n${lastLines.join('\n')}`);
  const { url } = first[0] as { url: string };
  return {
    url: url.replace(/\/$/, ''),
    pid,
    stop: async () => {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}
