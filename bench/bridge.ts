// The production bridge as a process, started as an operator would: environment in, signal to end. Must not reach into
// the bridge: what it does is seen at the broker and the Worker.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const mainPath = fileURLToPath(new URL('../broker-bridge/src/main.ts', import.meta.url));
const startWithinMs = 20_000;

export type BridgeOptions = {
  workerUrl: string;
  secret: string;
  mqttUrl: string;
  stateDir: string;
  /** Where a V8 CPU profile is left when the bridge ends; null for none. */
  profileDir: string | null;
};

export type Bridge = { pid: number; stop: () => Promise<void> };

/** Resolves when the bridge is the active one and connected on both sides. */
export async function startBridge(options: BridgeOptions): Promise<Bridge> {
  const profiling = options.profileDir === null ? [] : ['--cpu-prof', `--cpu-prof-dir=${options.profileDir}`];
  const child = fork(mainPath, {
    env: {
      PATH: process.env['PATH'] ?? '',
      WORKER_URL: options.workerUrl,
      BRIDGE_SECRET: options.secret,
      BRIDGE_ID: 'bench',
      MQTT_URL: options.mqttUrl,
      MQTT_CLIENT_ID: 'latchwork-bridge',
      SPOOL_DIR: join(options.stateDir, 'spool'),
    },
    execArgv: ['--disable-warning=ExperimentalWarning', ...profiling],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line);
      if (!isInfo(line)) console.log(`  bridge: ${line}`);
    });
  }
  const exited = once(child, 'exit');
  const isReady = new Promise<boolean>((resolve) => {
    child.on('message', (state: { broker: string; link: string; role: string | null }) => {
      if (state.broker === 'connected' && state.link === 'connected' && state.role === 'active') resolve(true);
    });
    child.once('exit', () => resolve(false));
    setTimeout(() => resolve(false), startWithinMs).unref();
  });
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    await exited;
  };
  if (await isReady) return { pid: child.pid ?? 0, stop };
  await stop();
  throw new Error(`The bridge did not get ready:\n${lines.join('\n')}`);
}

/** Anything else belongs to the figures: a warning explains them. */
export function isInfo(line: string): boolean {
  return line.includes('"level":"info"') || line.includes('"level":"debug"');
}
