// The processes of a local run and of a server: local broker, Worker, bridge and gateway. The only place that maps ports and
// secrets to their environment variables. Starts them; the caller watches them.
import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { bridgeName, spawnService } from './processes.ts';
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
export type Ports = { api: number; mqtt: number; brokerAdmin: number; health: number };
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
  /** Of the Worker, on top of what follows from the rest. */
  vars: Record<string, string>;
};

export type Part = {
  name: string;
  /** stdout and stderr are piped, and the first message over IPC means "ready". */
  spawn: () => ChildProcess;
};

export function brokerPart({ bindHost, ports, tls, secrets }: Place): Part {
  return servicePart('broker', {
    WORKER_URL: `http://127.0.0.1:${ports.api}`,
    BROKER_HOOK_SECRET: newest(secrets.BROKER_HOOK_SECRETS),
    BROKER_API_KEY: secrets.BROKER_API_KEY,
    BROKER_API_SECRET: secrets.BROKER_API_SECRET,
    BIND_HOST: bindHost,
    MQTT_PORT: String(ports.mqtt),
    BROKER_ADMIN_PORT: String(ports.brokerAdmin),
    ...tlsEnvironment(tls),
  });
}

export function servicePart(name: 'broker' | 'bridge' | 'gateway' | 'front', settings: Record<string, string>): Part {
  const env = { ...process.env, ...settings };
  return { name, spawn: () => spawnService(name, { env, detached: true }) };
}

/** Two are live while one replaces the other. */
export function newest(secrets: string): string {
  return secrets.replace(/,.*$/s, '');
}

function tlsEnvironment(tls: Place['tls']): Record<string, string> {
  if (tls === undefined) return {};
  return { MQTT_TLS_PORT: String(tls.port), TLS_CERT_FILE: tls.certFile, TLS_KEY_FILE: tls.keyFile };
}

/** Browser applications under development. */
const localOrigins = 'http://localhost:*,http://127.0.0.1:*';

/** Vars of a Worker that is tried out on this machine. */
export function localVars(hasBroker: boolean, ports: Pick<Ports, 'brokerAdmin'>): Record<string, string> {
  const ofBroker = {
    BROKER_REPORTS_CONNECTIONS: 'true',
    BROKER_API_URL: `http://127.0.0.1:${ports.brokerAdmin}`,
  };
  return {
    ...(hasBroker && ofBroker),
    CORS_ORIGINS: process.env['CORS_ORIGINS'] ?? localOrigins,
    RATE_LIMITS: process.env['RATE_LIMITS'] ?? 'relaxed',
    LIMITS: process.env['LIMITS'] ?? '',
    WEBHOOKS_MAY_BE_LOCAL: 'true',
    LOG_INFO_SHARE: '1',
    LOG_REJECTED_TEXT: 'true',
  };
}

/** Vars and secrets of the Worker. */
export function workerBindings({ shownHost, hasBroker, ports, tls, secrets, vars }: Place): Record<string, string> {
  return {
    ...secrets,
    BROKER: hasBroker ? 'bridge' : 'none',
    MQTT_HOST: shownHost,
    MQTT_PORT: String(ports.mqtt),
    ...(tls !== undefined && { MQTT_TLS_PORT: String(tls.port) }),
    ...vars,
  };
}

export function workerPart(place: Place, buildDir: string, rateLimits: Record<string, number> = {}): Part {
  const { stateDir, bindHost, ports } = place;
  const options = { rateLimits, buildDir, stateDir, host: bindHost, port: ports.api, bindings: workerBindings(place) };
  return { name: 'worker', spawn: () => spawnWorker(options) };
}

/** @param environment says which broker, at least */
export function bridgePart({ stateDir, ports, secrets }: Place, environment: Record<string, string>): Part {
  return servicePart('bridge', {
    WORKER_URL: `http://127.0.0.1:${ports.api}`,
    SPOOL_DIR: join(stateDir, 'spool'),
    MQTT_CLIENT_ID: bridgeName,
    BRIDGE_ID: 'local',
    BRIDGE_SECRET: newest(secrets.BRIDGE_SECRETS),
    MQTT_USERNAME: bridgeName,
    MQTT_PASSWORD: newest(secrets.BRIDGE_MQTT_PASSWORDS),
    HEALTH_PORT: String(ports.health),
    LOG_FORMAT: 'json',
    ...environment,
  });
}

/** The bridge of the local broker. */
export function localBridgePart(place: Place): Part {
  // The local broker speaks nothing newer; trying MQTT 5 first would cost a refused login at every start.
  return bridgePart(place, { MQTT_URL: `mqtt://127.0.0.1:${place.ports.mqtt}`, MQTT_PROTOCOL: '3.1.1' });
}

export function gatewayPart(
  { bindHost, ports, tls, secrets }: Place,
  environment: Record<string, string> = { DRAIN_SECONDS: '0' },
): Part {
  return servicePart('gateway', {
    WORKER_URL: `http://127.0.0.1:${ports.api}`,
    GATEWAY_SECRET: newest(secrets.GATEWAY_SECRETS),
    LISTEN_HOST: bindHost,
    MQTT_PORT: String(ports.mqtt),
    ...tlsEnvironment(tls),
    // All devices may come from one address, and come back at once.
    MAX_UNAUTHENTICATED_PER_ADDRESS: '1000',
    HEALTH_PORT: String(ports.health),
    LOG_FORMAT: 'json',
    ...environment,
  });
}
