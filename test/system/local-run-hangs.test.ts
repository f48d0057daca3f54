// What holds `npm start` up and must not end it: parts that hang, a machine that sleeps, a log that nobody reads.
import { setTimeout as pass } from 'node:timers/promises';
import { afterEach, expect, test, vi } from 'vitest';
import { chooseLocalPlace, groupMembers, LocalRun } from '../../rig/services/local-run.ts';

const place = await chooseLocalPlace();
const runs: LocalRun[] = [];

function start(env: Record<string, string>): LocalRun {
  const run = new LocalRun(place, env);
  runs.push(run);
  return run;
}

afterEach(async () => {
  for (const run of runs.splice(0)) await run.stop();
});

test('a part that hangs is started again, with its workerd, and the service heals', async () => {
  const run = start({ DEMO: '0', LIFE_SIGN_SECONDS: '4' });
  await run.untilTold(/Try next/);
  for (const parts of [['broker', 'bridge'], ['worker']]) {
    const before = parts.map((part) => [part, run.pidOf(part)] as const);
    for (const [, pid] of before) process.kill(pid, 'SIGSTOP');
    for (const [part, pid] of before) {
      await run.untilTold(new RegExp(`${part} +ended \\(pid ${pid}, no sign of life for 4 s\\): starting it again`));
      await run.untilTold(new RegExp(`all parts connected again .* after the ${part} came back`));
      expect(groupMembers([pid])).toEqual([]);
    }
  }
  // workerd alone, behind a process that still answers.
  const before = run.pidOf('worker');
  const workerd = groupMembers([before]).find((member) => member.includes('workerd'));
  process.kill(Number(workerd?.split(' ')[0]), 'SIGSTOP');
  await run.untilTold(new RegExp(`worker +ended \\(pid ${before}, no sign of life for 4 s\\)`));
  await run.untilTold(/(after the worker came back[^]*){2}/);
});

test('a machine that was suspended is told in one line: no part is restarted and no device goes offline', async () => {
  const run = start({ LIFE_SIGN_SECONDS: '4' });
  await run.untilTold(/Try next/);
  const [deviceId, call, parts] = [run.demoDeviceId, run.demoClient(), JSON.stringify(run.parts)];
  const events = await call(`/devices/${deviceId}/events`);
  const outputBefore = run.output.length;
  const processes = groupMembers(run.groups).map((member) => Number(member.split(' ')[0]));
  for (const pid of [run.process.pid ?? 0, ...processes]) process.kill(pid, 'SIGSTOP');
  // Longer than a part may be silent: the length of the suspension is what the test is about.
  await pass(6_000);
  for (const pid of [...processes, run.process.pid ?? 0]) process.kill(pid, 'SIGCONT');
  await run.untilTold(/was suspended for \d+ s .*; all parts are connected/);
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
  const run = start({ DEMO: '0', LIMITS: 'infoLinesPerSecond=1000000' });
  await run.untilTold(/Try next/);
  process.kill(run.process.pid ?? 0, 'SIGSTOP');
  // A line each: far more than fits into the pipe and into what may wait for it.
  const ask = async (): Promise<void> => {
    for (let asked = 0; asked < 600; asked += 1) {
      const response = await fetch(`${run.url}/api/v1/users/me`, { signal: AbortSignal.timeout(20_000) });
      expect(response.status).toBe(401);
      await response.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: 16 }, ask));
  process.kill(run.process.pid ?? 0, 'SIGCONT');
  await vi.waitFor(async () => {
    // The next line that is written carries the count.
    expect(await run.askHealth()).toBe(200);
    const missing = run.logged('worker', 'log_not_read').map((entry) => Number(entry['lines']));
    expect(Math.max(...missing)).toBeGreaterThan(100);
  }, 20_000);
});
