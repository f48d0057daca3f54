// Debian's mosquitto for one run: own configuration, own folder, a free loopback port. Loopback is its only protection:
// it lets everybody in. Both sides of a comparison use this one broker.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findFreePort } from '../test/rig/ports.ts';

const binary = '/usr/sbin/mosquitto';

export const mosquittoMissing = existsSync(binary)
  ? null
  : `${binary} is not there: the benchmarks need a real broker (Debian: apt-get install mosquitto)`;

/** What differs from its defaults, apart from ports and folders. */
export const mosquittoSettings = [
  'allow_anonymous true',
  'set_tcp_nodelay true',
  'persistence true',
  // Its default of 1 000 acknowledges and drops what a subscriber cannot take at once.
  'max_queued_messages 100000',
];

export type Broker = { url: string; port: number; pid: number; stop: () => Promise<void> };

export async function startMosquitto(stateDir: string): Promise<Broker> {
  const dir = join(stateDir, 'mosquitto');
  mkdirSync(dir, { recursive: true });
  const port = await findFreePort();
  // Started by root, it would otherwise change to a user that cannot write here.
  const user = process.getuid?.() === 0 ? ['user root'] : [];
  const lines = [`listener ${port} 127.0.0.1`, `persistence_location ${dir}/`, ...user, ...mosquittoSettings];
  writeFileSync(join(dir, 'mosquitto.conf'), `${lines.join('\n')}\n`);
  const child = spawn(binary, ['-c', join(dir, 'mosquitto.conf')], { stdio: 'ignore' });
  try {
    await untilListening(port, child);
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
  return {
    url: `mqtt://127.0.0.1:${port}`,
    port,
    pid: child.pid ?? 0,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

export function mosquittoVersion(): string {
  if (mosquittoMissing !== null) return 'missing';
  // It says its version in its help text alone, and ends with a code that is no success.
  try {
    return readVersion(execFileSync(binary, ['-h'], { encoding: 'utf8' }));
  } catch (error) {
    return readVersion(String((error as { stdout?: unknown }).stdout));
  }
}

function readVersion(help: string): string {
  return /version (\S+)/.exec(help)?.[1] ?? 'unknown';
}

async function untilListening(port: number, child: ChildProcess): Promise<void> {
  for (let attempt = 0; attempt < 250; attempt += 1) {
    if (child.exitCode !== null) break;
    const socket = connect(port, '127.0.0.1');
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return;
    await sleep(20);
  }
  throw new Error('mosquitto does not listen');
}
