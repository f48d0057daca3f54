// The Worker as a process: `node test/rig/worker-process.ts`. The environment holds its place (API_PORT, BIND_HOST, BUILD_DIR,
// PERSIST_DIR), the vars and secrets that WORKER_BINDINGS names, and any var of wrangler.toml to override.
// Passes the Worker's log lines on, sends {type:'ready', url} over IPC and ends with its parent. Must not build, choose
// ports or make secrets.
import { fileURLToPath } from 'node:url';
import { createJsonLog, logLevels } from '../../dev/json-log.ts';
import { runWorker } from './worker-runtime.ts';

const log = createJsonLog('worker');

function requireSetting(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') throw new Error(`${name} must be set`);
  return value;
}

function pickBindings(names: string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, process.env[name] ?? '']));
}

/** The Worker logs JSON lines through `console`; workerd and libraries log text. */
function passOn({ level, message }: { level: string; message: string }): void {
  const known = logLevels.find((name) => name === level) ?? 'info';
  const fields = message.startsWith('{') ? parseLine(message) : { message };
  log(known, typeof fields['event'] === 'string' ? fields['event'] : 'runtime', fields);
}

/** A line that was cut off stays text. */
function parseLine(message: string): Record<string, unknown> {
  try {
    return JSON.parse(message) as Record<string, unknown>;
  } catch (error) {
    return { message, unreadable: String(error) };
  }
}

let worker: Awaited<ReturnType<typeof runWorker>> | undefined;
let isStopping = false;

function stop(): void {
  if (isStopping) return;
  isStopping = true;
  if (worker === undefined) process.exit(0);
  worker.stop().then(
    () => process.exit(0),
    (error: unknown) => {
      log('error', 'cannot_stop', { error: String(error) });
      process.exit(1);
    },
  );
}

// Preferred: on a signal Miniflare's own hook kills workerd at once, and nothing waits for its end.
process.on('disconnect', stop);
process.on('SIGTERM', stop);
process.on('SIGINT', stop);

try {
  worker = await runWorker({
    root: fileURLToPath(new URL('../..', import.meta.url)),
    buildDir: requireSetting('BUILD_DIR'),
    persistDir: requireSetting('PERSIST_DIR'),
    host: process.env['BIND_HOST'] ?? '127.0.0.1',
    port: Number(process.env['API_PORT'] ?? 8787),
    bindings: pickBindings(requireSetting('WORKER_BINDINGS').split(',')),
    env: process.env,
    onLog: passOn,
    onRestart: () => log('warn', 'runtime_restarted'),
  });
  log('info', 'ready', { url: worker.url.href });
  process.send?.({ type: 'ready', url: worker.url.href });
} catch (error) {
  log('error', 'cannot_start', { error: error instanceof Error ? error.message : String(error) });
  process.exit(1);
}
