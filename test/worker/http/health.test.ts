// The health address: what a deployment check sees when all is well, and when a part is missing.
import { env } from 'cloudflare:workers';
import { expect, it, vi } from 'vitest';
import { bridgeSecret } from '../rig/clients/link.ts';
import { sendWith } from '../rig/limited.ts';
import type { LinkHealth } from '../../../src/objects/broker-link/broker-link.ts';

const operatorSecret = 'operator-secret-of-the-worker-tests-only';
const connected: LinkHealth = { bridgeConnected: true, brokerConnected: true, stall: null };

/** The Worker with a broker link that answers as told, because no bridge dials in here. */
function check(
  health: () => Promise<LinkHealth>,
  changes: object = {},
  method = 'GET',
  secret = operatorSecret,
): Promise<Response> {
  const link = { getByName: () => ({ health }) };
  const headers = { Authorization: `Bearer ${secret}` };
  return sendWith({ BROKER_LINK: link, ...changes }, method, '/health', { headers });
}

function unavailable(parts: string): object {
  return { code: 503, message: `unavailable: ${parts}`, data: null };
}

it('names neither parts nor settings to a stranger, who learns only whether the service is well', async () => {
  for (const secret of ['', 'guessed', 'gateway-secret-of-the-worker-tests-only']) {
    const well = await check(() => Promise.resolve(connected), {}, 'GET', secret);
    expect(await well.json()).toEqual({ code: 200, message: 'success', data: { status: 'ok' } });
    const ill = await check(() => Promise.reject(new Error('down')), {}, 'GET', secret);
    expect(await ill.json()).toEqual({ code: 503, message: 'unavailable', data: null });
  }
});

it('answers 200 and names the parts to the operator and the bridge while every part is up', async () => {
  const response = await check(() => Promise.resolve(connected));
  const asBridge = await check(() => Promise.resolve(connected), {}, 'GET', bridgeSecret);
  expect(await asBridge.json()).toMatchObject({ data: { parts: { bridge: 'up' } } });
  expect(response.status).toBe(200);
  expect(await response.json()).toEqual({
    code: 200,
    message: 'success',
    data: { status: 'ok', parts: { api: 'up', database: 'up', bridge: 'up', broker: 'up' } },
  });
});

it.each([
  ['bridge, broker', { bridgeConnected: false, brokerConnected: false, stall: null }],
  ['broker', { bridgeConnected: true, brokerConnected: false, stall: null }],
  ['uplink (secret_refused for 75 s)', { ...connected, stall: { reason: 'secret_refused', seconds: 75 } }],
  ['uplink (spool_full for 3 s)', { ...connected, stall: { reason: 'spool_full', seconds: 3 } }],
] as const)('answers 503 and names what is missing: %s', async (parts, link) => {
  const response = await check(() => Promise.resolve(link));
  expect(response.status).toBe(503);
  expect(await response.json()).toEqual(unavailable(parts));
});

it('asks for no bridge where there is no broker', async () => {
  const withoutBroker = { BROKER: 'none' };
  const response = await check(() => Promise.reject(new Error('asked')), withoutBroker);
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ data: { status: 'ok', parts: { api: 'up', database: 'up' } } });
});

it('counts a failing check as a missing part, with a broker and without', async () => {
  const failing = await check(() => Promise.reject(new Error('object unreachable')));
  expect(await failing.json()).toEqual(unavailable('bridge, broker'));
  const withSession = () => {
    throw new Error('no database');
  };
  for (const vars of [{}, { BROKER: 'none' }]) {
    const changes = { ...vars, DB: { withSession } };
    const broken = await check(() => Promise.resolve(connected), changes);
    expect(await broken.json()).toEqual(unavailable('database'));
  }
});

it('answers without a check that never ends', async () => {
  const response = await check(() => new Promise(() => undefined));
  expect(await response.json()).toEqual(unavailable('bridge, broker'));
});

it('names the first migration that is not applied, as the log does, and minds none that it does not know', async () => {
  const lines: string[] = [];
  vi.spyOn(console, 'error').mockImplementation((line: string) => void lines.push(line));
  const { results } = await env.DB.prepare('select name from d1_migrations order by id').all<{ name: string }>();
  const [first] = results.map(({ name }) => name.replace('.sql', ''));
  await env.DB.prepare("update d1_migrations set name = 'newer-' || name").run();
  const missing = `database (migration ${first} is not applied)`;
  expect(await (await check(() => Promise.resolve(connected))).json()).toEqual(unavailable(missing));
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([{ migration: first }]);
  vi.restoreAllMocks();
  await env.DB.prepare('insert into d1_migrations (name) select substr(name, 7) from d1_migrations').run();
  expect((await check(() => Promise.resolve(connected))).status).toBe(200);
});

it('answers HEAD with the status alone, and nothing but GET and HEAD', async () => {
  const response = await check(() => Promise.resolve(connected), {}, 'HEAD');
  expect(response.status).toBe(200);
  expect(await response.text()).toBe('');
  expect((await check(() => Promise.resolve(connected), {}, 'POST')).status).toBe(404);
});
