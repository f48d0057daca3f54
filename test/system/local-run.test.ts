// `npm start` as a newcomer meets it: the story on the terminal, parts that heal, nothing left behind. Runs the real
// command on free ports with a state folder of its own.
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pass } from 'node:timers/promises';
import { afterEach, expect, test, vi } from 'vitest';
import { findFreePort } from '../rig/ports.ts';
import { chooseLocalPlace, groupMembers, LocalRun } from '../rig/local-run.ts';

const place = await chooseLocalPlace();
const { stateDir, mqttPort } = place;
const api = `http://127.0.0.1:${place.apiPort}`;
const runs: LocalRun[] = [];

function start(env: Record<string, string> = {}): LocalRun {
  const run = new LocalRun(place, env);
  runs.push(run);
  return run;
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

function readDeviceId(run: LocalRun): string {
  return /activated as (dev_\w+)/.exec(run.output)?.[1] ?? '';
}

/** A client of the API in the name of the demo's user. */
function demoClient(run: LocalRun) {
  const token = /^TOKEN=(\S+)$/m.exec(run.output)?.[1] ?? '';
  return async (path: string, init: RequestInit = {}) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(`${api}/api/v1${path}`, { ...init, headers });
    return (await response.json()) as { code: number; data: Record<string, unknown> };
  };
}

function groupsOf(run: LocalRun): number[] {
  return Object.values(run.parts).map(({ pid }) => pid);
}

afterEach(async () => {
  for (const run of runs.splice(0)) await run.stop();
});

test('the story appears, parts that are killed come back, and SIGTERM leaves no process', async () => {
  const run = start();
  await run.untilTold(/Try next/);
  const story = run.output;
  for (const step of [/registered/, /activated as/, /is online/, /command_sent/, /replied/, /pushed thing\/event/]) {
    expect(story).toMatch(step);
  }
  expect(story).toMatch(/\d\d:\d\d:\d\d\.\d{3}/);
  expect(story).not.toContain('\u001b');
  expect(await health()).toBe(200);
  expect(Object.keys(run.parts).sort()).toEqual(['bridge', 'broker', 'worker']);
  for (const file of ['secrets.env', 'demo.json']) expect(statSync(join(stateDir, file)).mode & 0o777).toBe(0o600);

  const deviceId = readDeviceId(run);
  const call = demoClient(run);
  const command = () => call(`/devices/${deviceId}/control`, { method: 'POST', body: '{"action":"toggle"}' });

  for (const part of ['bridge', 'broker', 'worker']) {
    const before = run.pidOf(part);
    process.kill(before, 'SIGKILL');
    await run.untilTold(new RegExp(`${part} +ended \\(pid ${before}, SIGKILL\\): starting it again`));
    await vi.waitFor(
      async () => {
        expect(run.pidOf(part)).not.toBe(before);
        expect(await health()).toBe(200);
        expect((await call(`/devices/${deviceId}/status`)).data['online']).toBe(true);
        expect((await command()).code).toBe(200);
      },
      { timeout: 10_000, interval: 250 },
    );
  }

  const groups = groupsOf(run);
  expect(groupMembers(groups).some((process) => process.includes('workerd'))).toBe(true);
  run.process.kill('SIGTERM');
  expect(await run.untilEnd()).toBe(0);
  expect(groupMembers(groups)).toEqual([]);
  expect(run.parts).toEqual({});
});

test('a second run finds everything again, even after the first was killed with its Worker', async () => {
  const first = start();
  await first.untilTold(/Try next/);
  expect(first.output).toMatch(/signed in/);
  const groups = groupsOf(first);

  const rival = start({ API_PORT: String(await findFreePort()) });
  expect(await rival.untilEnd()).toBe(1);
  expect(rival.output.trim().split('\n')).toEqual([expect.stringMatching(/already runs .* choose STATE_DIR/)]);

  // Killed at once, the Worker's process has no time to take workerd with it.
  const worker = first.pidOf('worker');
  first.process.kill('SIGKILL');
  process.kill(worker, 'SIGKILL');
  await first.untilEnd();
  const second = start();
  await second.untilTold(/Try next/);
  expect(groupMembers(groups)).toEqual([]);
  expect(readDeviceId(second)).toBe(readDeviceId(first));
  second.process.kill('SIGINT');
  expect(await second.untilEnd()).toBe(0);
});

test('a taken port is said in one line with the way out', async () => {
  const holder = createServer().listen(mqttPort, '127.0.0.1');
  await once(holder, 'listening');
  const run = start();
  expect(await run.untilEnd()).toBe(1);
  expect(run.output.trim().split('\n')).toEqual([
    expect.stringMatching(new RegExp(`Port ${mqttPort} is taken.*MQTT_PORT=<port>`)),
  ]);
  holder.close();
  expect(existsSync(join(stateDir, 'start.pid'))).toBe(false);
});

test('a part that hangs is started again, with its workerd, and the service heals', async () => {
  const run = start({ DEMO: '0', LIFE_SIGN_SECONDS: '4' });
  await run.untilTold(/Try next/);
  for (const part of ['worker', 'broker', 'bridge']) {
    const before = run.pidOf(part);
    process.kill(before, 'SIGSTOP');
    await run.untilTold(new RegExp(`${part} +ended \\(pid ${before}, no sign of life for 4 s\\): starting it again`));
    await run.untilTold(new RegExp(`all parts connected again .* after the ${part} came back`));
    expect(groupMembers([before])).toEqual([]);
  }
  // workerd alone, behind a process that still answers.
  const before = run.pidOf('worker');
  const workerd = groupMembers([before]).find((member) => member.includes('workerd'));
  process.kill(Number(workerd?.split(' ')[0]), 'SIGSTOP');
  await run.untilTold(new RegExp(`worker +ended \\(pid ${before}, no sign of life for 4 s\\)`));
  await run.untilTold(/(all parts connected again[^]*){4}/);
});

test('a machine that was suspended is told in one line: no part is restarted and no device goes offline', async () => {
  const run = start({ LIFE_SIGN_SECONDS: '4' });
  await run.untilTold(/Try next/);
  const [deviceId, call, parts] = [readDeviceId(run), demoClient(run), JSON.stringify(run.parts)];
  const events = await call(`/devices/${deviceId}/events`);
  const outputBefore = run.output.length;
  const processes = groupMembers(groupsOf(run)).map((member) => Number(member.split(' ')[0]));
  for (const pid of [run.process.pid ?? 0, ...processes]) process.kill(pid, 'SIGSTOP');
  // Longer than a part may be silent: the length of the suspension is what the test is about.
  await pass(6_000);
  for (const pid of [...processes, run.process.pid ?? 0]) process.kill(pid, 'SIGCONT');
  await run.untilTold(/this machine was suspended for \d+ s; all parts are connected/);
  expect((await call(`/devices/${deviceId}/status`)).data['online']).toBe(true);
  expect(await call(`/devices/${deviceId}/events`)).toEqual(events);
  expect(JSON.stringify(run.parts)).toBe(parts);
  const told = run.output
    .slice(outputBefore)
    .split('\n')
    .filter((line) => / (health|worker|broker|bridge) /.test(line));
  expect(told).toEqual([expect.stringContaining('was suspended')]);
});

test('the service answers while nobody reads its log, and the log says what is missing', async () => {
  const run = start({ DEMO: '0' });
  await run.untilTold(/Try next/);
  process.kill(run.process.pid ?? 0, 'SIGSTOP');
  // A line each: far more than fits into the pipe and into what may wait for it.
  const ask = async (): Promise<void> => {
    for (let asked = 0; asked < 600; asked += 1) {
      const response = await fetch(`${api}/api/v1/users/me`, { signal: AbortSignal.timeout(20_000) });
      expect(response.status).toBe(401);
      await response.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: 16 }, ask));
  process.kill(run.process.pid ?? 0, 'SIGCONT');
  await vi.waitFor(async () => {
    // The next line that is written carries the count.
    expect(await health()).toBe(200);
    expect(run.logged('worker', 'log_not_read')).toEqual([expect.objectContaining({ level: 'warn' })]);
  }, 20_000);
});
