// Builds the Worker as `wrangler deploy` would and runs the result as a process of its own (worker.ts), for `npm start`,
// system tests and benchmarks. Knows nothing of the broker and the bridge.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { killGroup } from './process-groups.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Where the Worker keeps D1 and Durable Objects, and where its bundle lies, under a state folder. */
export function workerDirs(stateDir: string): { buildDir: string; persistDir: string } {
  return { buildDir: join(stateDir, 'build'), persistDir: join(stateDir, 'worker') };
}

/** @throws Error with wrangler's own words when the Worker does not build. */
export async function buildWorker(buildDir: string): Promise<void> {
  mkdirSync(buildDir, { recursive: true });
  const wrangler = join(root, 'node_modules/wrangler/bin/wrangler.js');
  const child = spawn(process.execPath, [wrangler, 'deploy', '--dry-run', '--outdir', buildDir], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, WRANGLER_SEND_METRICS: 'false', FORCE_COLOR: '0' },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [exitCode] = (await once(child, 'close')) as [number | null];
  if (exitCode !== 0) throw new Error(`The Worker does not build:\n${output.trim()}`);
}

/** Spawns worker.ts as leader of its own process group, because workerd outlives a killed parent. */
export function spawnWorker(options: {
  stateDir: string;
  host: string;
  port: number;
  env: Record<string, string>;
}): ChildProcess {
  const { buildDir, persistDir } = workerDirs(options.stateDir);
  mkdirSync(persistDir, { recursive: true });
  return spawn(process.execPath, [fileURLToPath(new URL('worker.ts', import.meta.url))], {
    cwd: root,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: {
      ...process.env,
      WRANGLER_LOG: 'error',
      WRANGLER_SEND_METRICS: 'false',
      // wrangler and Miniflare are 20 MB of JavaScript, parsed at every start and restart.
      NODE_COMPILE_CACHE: join(options.stateDir, 'compile-cache'),
      ...options.env,
      WORKER_BINDINGS: Object.keys(options.env).join(','),
      BUILD_DIR: buildDir,
      PERSIST_DIR: persistDir,
      BIND_HOST: options.host,
      API_PORT: String(options.port),
    },
  });
}

export type BuiltWorker = { url: string; pid: number; stop: () => Promise<void> };

/**
 * A built Worker on `port` (0: any free one). Builds unless `stateDir` holds a bundle from `buildWorker` already and
 * `isBuilt` says so. `onLine` hears the JSON lines of worker.ts.
 */
export async function startBuiltWorker(options: {
  stateDir: string;
  host?: string;
  port?: number;
  vars?: Record<string, string>;
  secrets: Record<'JWT_SECRETS' | 'BRIDGE_SECRETS' | 'BROKER_HOOK_SECRETS', string>;
  isBuilt?: boolean;
  onLine?: (line: string) => void;
}): Promise<BuiltWorker> {
  const { stateDir, host = '127.0.0.1', port = 0, vars = {}, secrets, isBuilt = false, onLine } = options;
  if (!isBuilt) await buildWorker(workerDirs(stateDir).buildDir);
  const child = spawnWorker({ stateDir, host, port, env: { ...vars, ...secrets } });
  const lastLines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    createInterface({ input: stream }).on('line', (line) => {
      onLine?.(line);
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
