// The processes of a local run: local broker, Worker and bridge, or Worker and gateway. The only place that maps ports and
// secrets to their environment variables. Starts them; the caller watches them.
import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { bridgeEnvironment, bridgeName, spawnService } from './processes.ts';
import { spawnWorker } from '../worker/built-worker.ts';

export const secretNames = [
  'JWT_SECRETS',
  'BRIDGE_SECRETS',
  'BRIDGE_MQTT_PASSWORDS',
  'SEALING_SECRETS',
  'MESSAGING_SECRETS',
  'BROKER_HOOK_SECRETS',
  'OPERATOR_SECRETS',
  'GATEWAY_SECRETS',
  'VAPID_KEY',
  'BROKER_API_KEY',
  'BROKER_API_SECRET',
] as const;
export type LocalSecrets = Record<(typeof secretNames)[number], string>;
export type Ports = { api: number; mqtt: number; ws: number; brokerAdmin: number; health: number };
export type Place = {
  stateDir: string;
  bindHost: string;
  shownHost: string;
  /** Without a broker the gateway listens in its place. */
  hasBroker: boolean;
  ports: Ports;
  /** Where devices may connect with TLS as well. */
  tls?: { port: number; certFile: string; keyFile: string };
  secrets: LocalSecrets;
};

export type Part = {
  name: string;
  /** stdout and stderr are piped, and the first message over IPC means "ready". */
  spawn: () => ChildProcess;
};

export function brokerPart({ bindHost, ports, tls, secrets }: Place): Part {
  return servicePart('broker', {
    WORKER_URL: `http://127.0.0.1:${ports.api}`,
    BROKER_HOOK_SECRET: secrets.BROKER_HOOK_SECRETS,
    BROKER_API_KEY: secrets.BROKER_API_KEY,
    BROKER_API_SECRET: secrets.BROKER_API_SECRET,
    BIND_HOST: bindHost,
    MQTT_PORT: String(ports.mqtt),
    MQTT_WS_PORT: String(ports.ws),
    BROKER_ADMIN_PORT: String(ports.brokerAdmin),
    ...tlsEnvironment(tls),
  });
}

function servicePart(name: 'broker' | 'bridge' | 'gateway', settings: Record<string, string>): Part {
  const env = { ...process.env, ...settings };
  return { name, spawn: () => spawnService(name, { env, detached: true }) };
}

function tlsEnvironment(tls: Place['tls']): Record<string, string> {
  if (tls === undefined) return {};
  return { MQTT_TLS_PORT: String(tls.port), TLS_CERT_FILE: tls.certFile, TLS_KEY_FILE: tls.keyFile };
}

/** Browser applications under development. */
const localOrigins = 'http://localhost:*,http://127.0.0.1:*';

/** Vars and secrets of a Worker beside the local broker or the gateway. */
export function workerBindings({ shownHost, hasBroker, ports, tls, secrets }: Place): Record<string, string> {
  const ofBroker = {
    BROKER_REPORTS_CONNECTIONS: 'true',
    BROKER_API_URL: `http://127.0.0.1:${ports.brokerAdmin}`,
  };
  return {
    ...secrets,
    BROKER: hasBroker ? 'bridge' : 'none',
    MQTT_HOST: shownHost,
    MQTT_PORT: String(ports.mqtt),
    ...(tls !== undefined && { MQTT_TLS_PORT: String(tls.port) }),
    ...(hasBroker && ofBroker),
    CORS_ORIGINS: process.env['CORS_ORIGINS'] ?? localOrigins,
    RATE_LIMITS: process.env['RATE_LIMITS'] ?? 'relaxed',
    LIMITS: process.env['LIMITS'] ?? '',
    WEBHOOKS_MAY_BE_LOCAL: 'true',
    LOG_INFO_SHARE: '1',
    LOG_REJECTED_TEXT: 'true',
  };
}

export function workerPart(place: Place, buildDir: string): Part {
  const { stateDir, bindHost, ports } = place;
  const options = { buildDir, stateDir, host: bindHost, port: ports.api, bindings: workerBindings(place) };
  return { name: 'worker', spawn: () => spawnWorker(options) };
}

export function bridgePart({ stateDir, ports, secrets }: Place): Part {
  return servicePart('bridge', {
    ...bridgeEnvironment({
      workerUrl: `http://127.0.0.1:${ports.api}`,
      mqttUrl: `mqtt://127.0.0.1:${ports.mqtt}`,
      spoolDir: join(stateDir, 'spool'),
    }),
    BRIDGE_ID: 'local',
    BRIDGE_SECRET: secrets.BRIDGE_SECRETS,
    MQTT_USERNAME: bridgeName,
    MQTT_PASSWORD: secrets.BRIDGE_MQTT_PASSWORDS,
    // The local broker speaks nothing newer; trying MQTT 5 first would cost a refused login at every start.
    MQTT_PROTOCOL: '3.1.1',
    HEALTH_PORT: String(ports.health),
    LOG_FORMAT: 'json',
  });
}

export function gatewayPart({ bindHost, ports, tls, secrets }: Place): Part {
  return servicePart('gateway', {
    WORKER_URL: `http://127.0.0.1:${ports.api}`,
    GATEWAY_SECRET: secrets.GATEWAY_SECRETS,
    LISTEN_HOST: bindHost,
    MQTT_PORT: String(ports.mqtt),
    ...tlsEnvironment(tls),
    // All devices of a local run may come from one address, and come back at once.
    MAX_UNAUTHENTICATED_PER_ADDRESS: '1000',
    DRAIN_SECONDS: '0',
    HEALTH_PORT: String(ports.health),
    LOG_FORMAT: 'json',
  });
}
