// `npm start` as a newcomer meets it: the story on the terminal, parts that heal, nothing left behind. Runs the real
// command on free ports with a state folder of its own.
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connectAsync } from 'mqtt';
import { afterEach, expect, test, vi } from 'vitest';
import { findFreePort } from '../../rig/ports.ts';
import { chooseLocalPlace, groupMembers, LocalRun } from '../../rig/services/local-run.ts';

const [place, placeWithoutBroker] = [await chooseLocalPlace(), await chooseLocalPlace()];
const runs: LocalRun[] = [];

function start(env: Record<string, string> = {}, at = place): LocalRun {
  const run = new LocalRun(at, env);
  runs.push(run);
  return run;
}

afterEach(async () => {
  for (const run of runs.splice(0)) await run.kill('SIGTERM');
});

test.each([
  { env: {}, at: place, parts: ['bridge', 'broker', 'worker'] },
  { env: { BROKER: 'none' }, at: placeWithoutBroker, parts: ['gateway', 'worker'] },
])('$parts: the story appears, parts that are killed come back, and SIGTERM leaves no process', async (how) => {
  const { env, at, parts } = how;
  const run = start(env, at);
  await run.untilTold(/Try next/);
  // Other builds read the repository's pages meanwhile, so that only the copy may be changed.
  writeFileSync(join(at.stateDir, 'build/public/icon.svg'), 'its own');
  expect(await (await fetch(`${run.url}/icon.svg`)).text(), 'pages of its own').toBe('its own');
  // The switch may answer after all addresses were printed.
  for (const step of [/registered/, /activated as/, /is online/, /command_sent/, /replied/, /pushed thing\/event/]) {
    await run.untilTold(step);
  }
  const story = run.output;
  expect(story).toMatch(/\d\d:\d\d:\d\d\.\d{3}/);
  expect(story).not.toContain('\u001b');
  expect(await run.askHealth()).toBe(200);
  expect(Object.keys(run.parts).sort()).toEqual(parts);
  for (const file of ['secrets.env', 'demo.json']) expect(statSync(join(at.stateDir, file)).mode & 0o777).toBe(0o600);

  const deviceId = run.demoDeviceId;
  const call = run.demoClient();
  const command = () => call(`/devices/${deviceId}/control`, { method: 'POST', body: '{"action":"toggle"}' });

  const { data: board } = await call('/devices/activate', {
    method: 'POST',
    body: '{"productKey":"demo-switch","deviceSN":"MISTAKEN"}',
  });
  const { deviceId: id, topics } = board as { deviceId: string; topics: Record<'propertyPost', string> };
  const { username, password } = board['mqtt'] as Record<'username' | 'password', string>;
  const login = {
    host: '127.0.0.1',
    port: Number(at.ports.MQTT_PORT),
    clientId: username,
    username,
    reconnectPeriod: 0,
  };
  const ca = readFileSync(join(at.stateDir, 'tls', 'cert.pem'));
  const tls = { protocol: 'mqtts', port: (board['mqtt'] as { portTLS: number }).portTLS, ca } as const;
  const secure = await connectAsync({ ...login, ...tls, password });
  await secure.endAsync();
  await expect(connectAsync({ ...login, password: `${password}x` })).rejects.toThrow();
  await run.untilTold(new RegExp(`device +${id}: login .* refused, (invalid password|wrong messaging password)`));
  const mistaken = await connectAsync({ ...login, password });
  await mistaken.publishAsync(topics.propertyPost, '{"params":{"position":"sideways"}}', { qos: 1 });
  await run.untilTold(
    new RegExp(`device +${id}: thing/event/property/post not used, wrong type \\(position\\): {"params`),
  );
  await mistaken.publishAsync(topics.propertyPost, 'x'.repeat(20_000), { qos: 1 });
  await run.untilTold(new RegExp(`device +${id}: thing/event/property/post not used, too large`));
  // On a direct connection it ends the session: no acknowledgement comes.
  mistaken.publish(topics.propertyPost, '{}', { qos: 1, retain: true }, () => undefined);
  await run.untilTold(new RegExp(`device +${id}: /sys/\\S+/thing/event/property/post not used, retained`));
  await mistaken.endAsync(true);

  for (const part of parts) {
    const before = run.pidOf(part);
    process.kill(before, 'SIGKILL');
    await run.untilTold(new RegExp(`${part} +ended \\(pid ${before}, SIGKILL\\): starting it again`));
    await vi.waitFor(
      async () => {
        expect(run.pidOf(part)).not.toBe(before);
        expect(await run.askHealth()).toBe(200);
        expect((await call(`/devices/${deviceId}/status`)).data['online']).toBe(true);
        expect((await command()).code).toBe(200);
      },
      { timeout: 180_000, interval: 250 },
    );
  }

  const groups = run.groups;
  expect(groupMembers(groups).some((process) => process.includes('workerd'))).toBe(true);
  expect(await run.kill('SIGTERM')).toBe(0);
  expect(groupMembers(groups)).toEqual([]);
  expect(run.parts).toEqual({});
});

test('a second run finds everything again, even after the first was killed with its Worker', async () => {
  const first = start();
  await first.untilTold(/Try next/);
  expect(first.output).toMatch(/signed in/);
  const groups = first.groups;

  const rival = start({ API_PORT: String(await findFreePort()) });
  expect(await rival.untilExit()).toBe(1);
  expect(rival.output.trim().split('\n')).toEqual([expect.stringMatching(/already runs .* choose STATE_DIR/)]);

  // Killed at once, the Worker's process has no time to take workerd with it.
  const worker = first.pidOf('worker');
  first.child.kill('SIGKILL');
  process.kill(worker, 'SIGKILL');
  await first.untilExit();
  const second = start();
  await second.untilTold(/Try next/);
  expect(groupMembers(groups)).toEqual([]);
  expect(second.demoDeviceId).toBe(first.demoDeviceId);
  expect(await second.kill('SIGINT')).toBe(0);
});
