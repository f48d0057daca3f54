// `npm start` as a newcomer meets it: the story on the terminal, parts that heal, nothing left behind. Runs the real
// command on free ports with a state folder of its own.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, expect, test, vi } from 'vitest';
import { findFreePort } from '../rig/ports.ts';

const startScript = fileURLToPath(new URL('../../dev/start.ts', import.meta.url));
const stateDir = mkdtempSync(join(tmpdir(), 'latchwork-run-'));
const apiPort = await findFreePort();
const mqttPort = await findFreePort();
const api = `http://127.0.0.1:${apiPort}`;
const runs: ChildProcess[] = [];

type Run = { process: ChildProcess; output: () => string };

function start(env: Record<string, string> = {}): Run {
  const child = spawn(process.execPath, [startScript], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, API_PORT: String(apiPort), MQTT_PORT: String(mqttPort), STATE_DIR: stateDir, ...env },
  });
  runs.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  return { process: child, output: () => output };
}

function parts(): Record<string, { pid: number }> {
  return JSON.parse(readFileSync(join(stateDir, 'parts.json'), 'utf8')) as Record<string, { pid: number }>;
}

function pidOf(part: string): number {
  const pid = parts()[part]?.pid;
  if (pid === undefined) throw new Error(`parts.json does not name the ${part}`);
  return pid;
}

/** Processes of the parts' groups, workerd included; ended ones that nobody has collected yet do not count. */
function groupMembers(groups: number[]): string[] {
  const { stdout } = spawnSync('ps', ['-Ao', 'pgid=,stat=,pid=,args='], { encoding: 'utf8' });
  return stdout
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([group, state]) => groups.includes(Number(group)) && state?.startsWith('Z') !== true)
    .map((columns) => columns.slice(2).join(' ').slice(0, 80));
}

async function health(): Promise<number> {
  try {
    return (await fetch(`${api}/health`)).status;
  } catch (error) {
    // How fetch fails where it cannot connect.
    if (error instanceof TypeError) return 0;
    throw error;
  }
}

/** Waits for the text, but not on a run that has ended. */
async function told(run: Run, text: RegExp): Promise<void> {
  const hasEnded = () => run.process.exitCode !== null || run.process.signalCode !== null;
  await vi.waitFor(() => {
    if (!hasEnded()) expect(run.output()).toMatch(text);
  }, 60_000);
  expect(run.output()).toMatch(text);
}

async function endOf(run: Run): Promise<number | null> {
  if (run.process.exitCode === null && run.process.signalCode === null) await once(run.process, 'exit');
  return run.process.exitCode;
}

function readDeviceId(run: Run): string {
  return /activated as (dev_\w+)/.exec(run.output())?.[1] ?? '';
}

afterEach(async () => {
  for (const run of runs.splice(0)) {
    if (run.exitCode !== null || run.signalCode !== null) continue;
    run.kill('SIGTERM');
    await once(run, 'exit');
  }
});

afterAll(() => rmSync(stateDir, { recursive: true, force: true }));

test('the story appears, parts that are killed come back, and SIGTERM leaves no process', async () => {
  const run = start();
  await told(run, /Try next/);
  const story = run.output();
  for (const step of [/registered/, /activated as/, /is online/, /command_sent/, /replied/, /pushed thing\/event/]) {
    expect(story).toMatch(step);
  }
  expect(story).toMatch(/\d\d:\d\d:\d\d\.\d{3}/);
  expect(story).not.toContain('\u001b');
  expect(await health()).toBe(200);
  expect(Object.keys(parts()).sort()).toEqual(['bridge', 'broker', 'worker']);
  for (const file of ['secrets.env', 'demo.json']) expect(statSync(join(stateDir, file)).mode & 0o777).toBe(0o600);

  const token = /^TOKEN=(\S+)$/m.exec(story)?.[1] ?? '';
  const deviceId = readDeviceId(run);
  const call = async (path: string, init: RequestInit = {}) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(`${api}/api/v1${path}`, { ...init, headers });
    return (await response.json()) as { code: number; data: Record<string, unknown> };
  };
  const command = () => call(`/devices/${deviceId}/control`, { method: 'POST', body: '{"action":"toggle"}' });

  for (const part of ['bridge', 'broker', 'worker']) {
    const before = pidOf(part);
    process.kill(before, 'SIGKILL');
    await told(run, new RegExp(`${part} +ended \\(pid ${before}, SIGKILL\\): starting it again`));
    await vi.waitFor(
      async () => {
        expect(pidOf(part)).not.toBe(before);
        expect(await health()).toBe(200);
        expect((await call(`/devices/${deviceId}/status`)).data['online']).toBe(true);
        expect((await command()).code).toBe(200);
      },
      { timeout: 10_000, interval: 250 },
    );
  }

  const groups = Object.values(parts()).map(({ pid }) => pid);
  expect(groupMembers(groups).some((process) => process.includes('workerd'))).toBe(true);
  run.process.kill('SIGTERM');
  expect(await endOf(run)).toBe(0);
  expect(groupMembers(groups)).toEqual([]);
  expect(parts()).toEqual({});
});

test('a second run finds everything again, even after the first was killed with its Worker', async () => {
  const first = start();
  await told(first, /Try next/);
  expect(first.output()).toMatch(/signed in/);
  const groups = Object.values(parts()).map(({ pid }) => pid);

  const rival = start({ API_PORT: String(await findFreePort()) });
  expect(await endOf(rival)).toBe(1);
  expect(rival.output().trim().split('\n')).toEqual([expect.stringMatching(/already runs .* choose STATE_DIR/)]);

  // Killed at once, the Worker's process has no time to take workerd with it.
  const worker = pidOf('worker');
  first.process.kill('SIGKILL');
  process.kill(worker, 'SIGKILL');
  await endOf(first);
  const second = start();
  await told(second, /Try next/);
  expect(groupMembers(groups)).toEqual([]);
  expect(readDeviceId(second)).toBe(readDeviceId(first));
  second.process.kill('SIGINT');
  expect(await endOf(second)).toBe(0);
});

test('a taken port is said in one line with the way out', async () => {
  const holder = createServer().listen(mqttPort, '127.0.0.1');
  await once(holder, 'listening');
  const run = start();
  expect(await endOf(run)).toBe(1);
  expect(run.output().trim().split('\n')).toEqual([
    expect.stringMatching(new RegExp(`Port ${mqttPort} is taken.*MQTT_PORT=<port>`)),
  ]);
  holder.close();
  expect(existsSync(join(stateDir, 'start.pid'))).toBe(false);
});
