// What a person can choose for `npm start` and `npm run dev`, read from the environment once and checked. ports.ts
// handles ports that are in use.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { findSettingProblems, SettingsError } from '../../src/config.ts';

export type Settings = ReturnType<typeof readSettings>;

export function readSettings(env: NodeJS.ProcessEnv) {
  const textOf = (name: string) => (env[name] === '' ? undefined : env[name]);
  /** Set when the parts shall be reachable from the network under this name or address. */
  const publicHost = textOf('PUBLIC_HOST');
  if (publicHost !== undefined && !/^[A-Za-z0-9.-]+$/.test(publicHost)) {
    throw new Error(`PUBLIC_HOST is "${publicHost}": give a bare host name or IPv4 address, e.g. 192.168.1.20`);
  }
  /** Whether the setting is the first of two words. */
  const choose = (name: string, [first, second]: readonly [string, string]): boolean => {
    const text = textOf(name)?.toLowerCase() ?? first;
    if (text !== first && text !== second) throw new Error(`${name} is "${text}": give ${first} or ${second}`);
    return text === first;
  };
  const portOf = (name: string, fallback: number) => {
    const text = textOf(name);
    const port = Number(text ?? fallback);
    if (!Number.isInteger(port) || port < 1 || port > 65535) {
      throw new Error(`${name} is "${text ?? ''}": give a port from 1 to 65535`);
    }
    return { name, port, isExplicit: text !== undefined };
  };
  return {
    ports: {
      api: portOf('API_PORT', 8787),
      mqtt: portOf('MQTT_PORT', 1883),
      mqttTls: portOf('MQTT_TLS_PORT', 8883),
      brokerAdmin: portOf('BROKER_ADMIN_PORT', 18083),
      health: portOf('HEALTH_PORT', 18084),
    },
    stateDir: resolve(textOf('STATE_DIR') ?? '.latchwork'),
    hasDemo: choose('DEMO', ['yes', 'no']),
    /** Without a broker, devices connect to the Worker itself, over WebSocket or through the gateway. */
    hasBroker: choose('BROKER', ['bridge', 'none']),
    publicHost,
  };
}

/** The vars of wrangler.toml. */
export function readVars(): Record<string, string> {
  const toml = readFileSync(join(import.meta.dirname, '../../wrangler.toml'), 'utf8');
  const [section = ''] = toml.split(/^\[vars\]$/m)[1]?.split(/^\[/m) ?? [];
  const vars = section.matchAll(/^([A-Z_]+) = "(.*)"$/gm);
  return Object.fromEntries(Array.from(vars, ([, name = '', value = '']) => [name, value]));
}

/** Vars that are for tests and local runs alone. */
export function findLocalVars(vars: Record<string, unknown>): string[] {
  const names = Object.entries({ RATE_LIMITS: 'relaxed', WEBHOOKS_MAY_BE_LOCAL: 'true' });
  const local = names.filter(([name, value]) => vars[name] === value);
  return local.map(([name, value]) => `${name} is ${value}, which is for tests and local runs`);
}

/** @throws SettingsError what the Worker would say at its first request */
export function checkVars(overrides: Record<string, string | undefined>): void {
  const problems = findSettingProblems({ ...readVars(), ...overrides });
  if (problems.length > 0) throw new SettingsError(problems);
}
