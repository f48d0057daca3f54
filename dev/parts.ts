// The three parts of a local run and what each of them is told: the only place that maps settings, ports and secrets
// to the parts' own environment variables.
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { spawnWorker } from './built-worker.ts';
import type { LocalSecrets } from './secrets.ts';
import type { Part } from './supervisor.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const bridgeName = 'latchwork-bridge';

export type Ports = { api: number; mqtt: number; ws: number; brokerAdmin: number; bridgeHealth: number };
export type Place = { stateDir: string; bindHost: string; shownHost: string; ports: Ports; secrets: LocalSecrets };

export function brokerPart({ stateDir, bindHost, ports, secrets }: Place): Part {
  return {
    name: 'broker',
    spawn: () =>
      spawnNode('dev/broker.ts', {
        WORKER_URL: `http://127.0.0.1:${ports.api}`,
        BROKER_HOOK_SECRET: secrets.BROKER_HOOK_SECRETS,
        BROKER_API_KEY: secrets.BROKER_API_KEY,
        BROKER_API_SECRET: secrets.BROKER_API_SECRET,
        STATE_DIR: stateDir,
        BIND_HOST: bindHost,
        MQTT_PORT: String(ports.mqtt),
        MQTT_WS_PORT: String(ports.ws),
        BROKER_ADMIN_PORT: String(ports.brokerAdmin),
      }),
  };
}

export function workerPart({ stateDir, bindHost, shownHost, ports, secrets }: Place): Part {
  const env = {
    ...secrets,
    MQTT_HOST: shownHost,
    MQTT_PORT: String(ports.mqtt),
    BROKER_REPORTS_CONNECTIONS: 'true',
    BROKER_API_URL: `http://127.0.0.1:${ports.brokerAdmin}`,
    RATE_LIMITS: process.env['RATE_LIMITS'] ?? 'relaxed',
  };
  return { name: 'worker', spawn: () => spawnWorker({ stateDir, host: bindHost, port: ports.api, env }) };
}

export function bridgePart({ stateDir, ports, secrets }: Place): Part {
  return {
    name: 'bridge',
    spawn: () =>
      spawnNode('broker-bridge/src/main.ts', {
        WORKER_URL: `http://127.0.0.1:${ports.api}`,
        BRIDGE_SECRET: secrets.BRIDGE_SECRETS,
        BRIDGE_ID: 'local',
        MQTT_URL: `mqtt://127.0.0.1:${ports.mqtt}`,
        MQTT_USERNAME: bridgeName,
        MQTT_PASSWORD: secrets.BRIDGE_SECRETS,
        MQTT_CLIENT_ID: bridgeName,
        // The local broker speaks nothing newer; trying MQTT 5 first would cost a refused login at every start.
        MQTT_PROTOCOL: '3.1.1',
        SPOOL_DIR: join(stateDir, 'spool'),
        HEALTH_PORT: String(ports.bridgeHealth),
        LOG_FORMAT: 'json',
      }),
  };
}

function spawnNode(script: string, env: Record<string, string>): ChildProcess {
  // node:sqlite still announces itself as experimental on every start.
  return spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(root, script)], {
    cwd: root,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { ...process.env, ...env },
  });
}
