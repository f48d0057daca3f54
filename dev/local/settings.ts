// What a person can choose for `npm start` and `npm run dev`, read from the environment once and checked. ports.ts
// handles ports that are taken.
import { resolve } from 'node:path';
import type { Ports } from '../../rig/services/parts.ts';

type WantedPort = { name: string; port: number; isExplicit: boolean };

export type Settings = {
  ports: Record<keyof Ports | 'mqttTls', WantedPort>;
  stateDir: string;
  hasDemo: boolean;
  /** Without one devices connect to the Worker itself, over WebSocket or through the gateway. */
  hasBroker: boolean;
  /** Set when the parts shall be reachable from the network under this name or address. */
  publicHost: string | undefined;
};

export function readSettings(env: NodeJS.ProcessEnv): Settings {
  const publicHost = readText(env, 'PUBLIC_HOST');
  if (publicHost !== undefined && !/^[A-Za-z0-9.-]+$/.test(publicHost)) {
    throw new Error(`PUBLIC_HOST is "${publicHost}": give a bare host name or IPv4 address, e.g. 192.168.1.20`);
  }
  return {
    ports: {
      api: readPort(env, 'API_PORT', 8787),
      mqtt: readPort(env, 'MQTT_PORT', 1883),
      mqttTls: readPort(env, 'MQTT_TLS_PORT', 8883),
      ws: readPort(env, 'MQTT_WS_PORT', 8083),
      brokerAdmin: readPort(env, 'BROKER_ADMIN_PORT', 18083),
      health: readPort(env, 'HEALTH_PORT', 18084),
    },
    stateDir: resolve(readText(env, 'STATE_DIR') ?? '.latchwork'),
    hasDemo: readSwitch(env, 'DEMO', true),
    hasBroker: readBroker(env),
    publicHost,
  };
}

function readText(env: NodeJS.ProcessEnv, name: string): string | undefined {
  return env[name] === '' ? undefined : env[name];
}

function readBroker(env: NodeJS.ProcessEnv): boolean {
  const text = readText(env, 'BROKER')?.toLowerCase() ?? 'bridge';
  if (text !== 'bridge' && text !== 'none') throw new Error(`BROKER is "${text}": give bridge or none`);
  return text === 'bridge';
}

function readSwitch(env: NodeJS.ProcessEnv, name: string, fallback: boolean): boolean {
  const text = readText(env, name)?.toLowerCase();
  if (text === undefined) return fallback;
  if (['1', 'yes', 'on', 'true'].includes(text)) return true;
  if (['0', 'no', 'off', 'false'].includes(text)) return false;
  throw new Error(`${name} is "${text}": give yes or no`);
}

function readPort(env: NodeJS.ProcessEnv, name: string, fallback: number): WantedPort {
  const text = env[name];
  if (text === undefined || text === '') return { name, port: fallback, isExplicit: false };
  const port = Number(text);
  if (!Number.isInteger(port) || port < 1 || port > 65535) {
    throw new Error(`${name} is "${text}": give a port from 1 to 65535`);
  }
  return { name, port, isExplicit: true };
}
