// Which vars and secrets a deployment needs: with a broker those of its machines, too. What a request answers while one is
// missing is in envelope.test.ts.
import { env } from 'cloudflare:workers';
import { expect, it } from 'vitest';
import { readConfig } from '../../../src/config.ts';

const ofMachines = ['BRIDGE_SECRETS', 'BRIDGE_MQTT_PASSWORDS', 'BROKER_HOOK_SECRETS'];
const withVars = (vars: Record<string, string>): Env => ({ ...env, ...vars });
const without = (names: string[]) => Object.fromEntries(names.map((name) => [name, '']));

it.each(ofMachines)('with a broker needs %s', (name) => {
  expect(() => readConfig(withVars(without([name])))).toThrow(`${name} is missing`);
});

it('without a broker needs none of them, and has no API of a broker', () => {
  const api = { BROKER_API_URL: 'http://broker.test', BROKER_API_KEY: 'key', BROKER_API_SECRET: 'secret' };
  const config = readConfig(withVars({ BROKER: 'none', ...without([...ofMachines, 'GATEWAY_SECRETS']), ...api }));
  expect(config.hasBroker).toBe(false);
  expect(config.broker.api).toBeUndefined();
  expect(config.gatewaySecrets).toEqual([]);
  expect(readConfig(env).hasBroker).toBe(true);
});

it('without a broker has nobody to push credentials to', () => {
  expect(() => readConfig(withVars({ BROKER: 'none', BROKER_PROVISIONING: 'mosquitto' }))).toThrow(
    'BROKER_PROVISIONING has to be none if BROKER is none',
  );
});

it('knows no other kind of broker', () => {
  expect(() => readConfig(withVars({ BROKER: 'mqtt' }))).toThrow('BROKER');
});

it('takes at most two secrets of gateways, each of 32 characters', () => {
  const long = 'x'.repeat(32);
  expect(readConfig(withVars({ GATEWAY_SECRETS: `${long},${long}y` })).gatewaySecrets).toHaveLength(2);
  expect(() => readConfig(withVars({ GATEWAY_SECRETS: 'short' }))).toThrow('32 characters');
  expect(() => readConfig(withVars({ GATEWAY_SECRETS: [long, long, long].join() }))).toThrow('at most 2 live at once');
});
