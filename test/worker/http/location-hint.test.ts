// Where objects are placed: every call carries the hint of the configuration, which is one that the platform knows.
import { env } from 'cloudflare:workers';
import { expect, it } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { inPerson } from '../../../src/domain/access.ts';
import type { Projection } from '../../../src/domain/device/core/events.ts';
import {
  callBrokerLink,
  callBulk,
  callDevice,
  callInbox,
  callProjectionWriter,
  callPropagator,
  callRelay,
  callWebhook,
} from '../../../src/objects/calls/stubs.ts';

const namespaces = [
  'DEVICE_SESSION',
  'RELAY_GATEWAY',
  'BROKER_LINK',
  'PROJECTION_WRITER',
  'PRODUCT_PROPAGATOR',
  'WEBHOOK_ENDPOINT',
  'USER_INBOX',
  'BULK_RUN',
] as const;

async function callEach(hint: string): Promise<unknown[]> {
  const options: unknown[] = [];
  const answering = new Proxy({}, { get: () => () => Promise.resolve() });
  const getByName = (_: string, given: unknown) => {
    options.push(given);
    return answering;
  };
  const recording = Object.fromEntries(namespaces.map((name) => [name, { getByName }]));
  const vars = { ...env, ...recording, LOCATION_HINT: hint } as unknown as Env;
  await callDevice(vars, 'dev_00000000', 'idempotent').isUnused();
  await callRelay(vars, 'relay-0', 'idempotent').push([]);
  await callBrokerLink(vars, 'idempotent').health();
  await callProjectionWriter(vars, 'projections', 'once').write('dev_00000000', {} as Projection);
  await callPropagator(vars, 1, 'idempotent').start();
  await callWebhook(vars, 'webhook', 'idempotent').delete();
  await callInbox(vars, 1, 'idempotent').delete();
  await callBulk(vars, 'run', 'idempotent').pause(inPerson(1), true);
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
