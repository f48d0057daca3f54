// Where objects are placed: every call carries the hint of the configuration, which is one that the platform knows.
import { env } from 'cloudflare:workers';
import { expect, it } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import {
  callBrokerLink,
  callDevice,
  callProjectionWriter,
  callPropagator,
  callRelay,
} from '../../../src/objects/calls/stubs.ts';

const namespaces = [
  'DEVICE_SESSION',
  'RELAY_GATEWAY',
  'BROKER_LINK',
  'PROJECTION_WRITER',
  'PRODUCT_PROPAGATOR',
] as const;

async function callEach(hint: string): Promise<unknown[]> {
  const options: unknown[] = [];
  const recording = Object.fromEntries(
    namespaces.map((name) => [name, { getByName: (_: string, given: unknown) => options.push(given) }]),
  );
  const vars = { ...env, ...recording, LOCATION_HINT: hint } as unknown as Env;
  await callDevice(vars, 'dev_00000000', 'status', 'idempotent', () => Promise.resolve());
  await callRelay(vars, 'relay-0', 'push', 'idempotent', () => Promise.resolve());
  await callBrokerLink(vars, 'health', 'idempotent', () => Promise.resolve());
  await callProjectionWriter(vars, 'projections', 'write', 'once', () => Promise.resolve());
  await callPropagator(vars, 1, 'start', 'idempotent', () => Promise.resolve());
  return options;
}

it('objects are placed where the hint says', async () => {
  expect(await callEach('weur')).toEqual(namespaces.map(() => ({ locationHint: 'weur' })));
});

it('without a hint the platform chooses', async () => {
  expect(await callEach('')).toEqual(namespaces.map(() => undefined));
});

it('a hint that the platform does not know is a mistake of the configuration', () => {
  expect(() => readConfig({ ...env, LOCATION_HINT: 'europe' } as unknown as Env)).toThrow('LOCATION_HINT');
});
