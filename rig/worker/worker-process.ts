// The Worker as a process: `node rig/worker/worker-process.ts`. The environment holds its place (API_PORT, BIND_HOST, BUILD_DIR,
// PERSIST_DIR), SCHEDULE_SECONDS (60), what else workerd runs (NEIGHBOURS, FRONT_MODULE), the vars and secrets that WORKER_BINDINGS names, and any var of wrangler.toml to override.
// Passes the Worker's log lines on. Must not build, choose ports or make secrets.
import { fileURLToPath } from 'node:url';
import { createJsonLog, isLogLevel, requireSetting, runPart } from './part-process.ts';
import { runWorker, type Neighbour } from './worker-runtime.ts';

const log = createJsonLog('worker');

function pickBindings(names: string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, process.env[name] ?? '']));
}

/** The Worker logs JSON lines through `console`; workerd and libraries log text. */
function passOn({ level, message }: { level: string; message: string }): void {
  // workerd's own view of a client that sends malformed chunks; the Worker logs what it answers.
  if (/kj\/compat\/http\.c\+\+.*failed: invalid HTTP/.test(message)) {
    log('info', 'malformed_http', { message: message.split('\n')[0] });
    return;
  }
  const fields = message.startsWith('{') ? parseLine(message) : { message };
  log(isLogLevel(level) ? level : 'info', typeof fields['event'] === 'string' ? fields['event'] : 'runtime', fields);
}

/** A line that was cut off stays text. */
function parseLine(message: string): Record<string, unknown> {
  try {
    return JSON.parse(message) as Record<string, unknown>;
  } catch (error) {
    return { message, unreadable: String(error) };
  }
}

// The parent disconnects rather than send a signal, on which Miniflare's own hook kills workerd at once.
runPart(log, async () => {
  const { url, stop } = await runWorker({
    root: fileURLToPath(new URL('../..', import.meta.url)),
    buildDir: requireSetting('BUILD_DIR'),
    persistDir: requireSetting('PERSIST_DIR'),
    host: process.env['BIND_HOST'] ?? '127.0.0.1',
    port: Number(process.env['API_PORT'] ?? 8787),
    bindings: pickBindings(requireSetting('WORKER_BINDINGS').split(',')),
    env: process.env,
    neighbours: JSON.parse(process.env['NEIGHBOURS'] ?? '[]') as Neighbour[],
    frontModule: process.env['FRONT_MODULE'],
    scheduleEveryMs: Number(process.env['SCHEDULE_SECONDS'] ?? 60) * 1000,
    onLog: passOn,
    onSchedule: (outcome) => log('failure' in outcome ? 'warn' : 'info', 'schedule_ran', outcome),
    onRestart: () => log('warn', 'runtime_restarted'),
  });
  return { ready: { url: url.href }, stop };
});
