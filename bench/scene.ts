// What every benchmark needs, started once: mosquitto, the built Worker in workerd, a user with devices. Everything on
// loopback, everything in one temporary folder, everything stopped at the end. It measures nothing.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startBuiltWorker, type BuiltWorker } from '../dev/built-worker.ts';
import { loadSecrets } from '../dev/secrets.ts';
import { isInfo, startBridge, type Bridge } from './bridge.ts';
import { makeFleet, type Fleet } from './fleet.ts';
import { mosquittoSettings, startMosquitto, type Broker } from './mosquitto.ts';

export type Scene = {
  broker: Broker;
  worker: BuiltWorker;
  fleet: Fleet;
  /** To the Worker itself unless told otherwise. One at a time. */
  startBridge: (workerUrl?: string) => Promise<Bridge>;
  stop: () => Promise<void>;
};

const workerVars = {
  RATE_LIMITS: 'relaxed',
  // mosquitto calls no hooks: in production behind it the service watches for silence, and so it does here.
  BROKER_REPORTS_CONNECTIONS: 'false',
};

export const sceneSettings = [
  `mosquitto: ${mosquittoSettings.join(', ')}`,
  `Worker: the built bundle in workerd, ${Object.entries(workerVars)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ')}`,
  'bridge: as in production, MQTT 5, its spool flushed to the disk before each acknowledgement',
  'devices are activated over HTTP; their logins are not checked by the broker',
];

export async function startScene(options: { deviceCount: number; profileDir: string | null }): Promise<Scene> {
  const { deviceCount, profileDir } = options;
  const stateDir = mkdtempSync(join(tmpdir(), 'latchwork-bench-'));
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (const stopOne of stops.splice(0).reverse()) await stopOne();
    rmSync(stateDir, { recursive: true, force: true });
  };
  try {
    const broker = await startMosquitto(stateDir);
    stops.push(() => broker.stop());
    const { JWT_SECRETS, BRIDGE_SECRETS, BROKER_HOOK_SECRETS } = loadSecrets(stateDir);
    const worker = await startBuiltWorker({
      stateDir,
      vars: { ...workerVars, MQTT_HOST: '127.0.0.1', MQTT_PORT: String(broker.port) },
      secrets: { JWT_SECRETS, BRIDGE_SECRETS, BROKER_HOOK_SECRETS },
      onLine: (line) => {
        if (!isInfo(line)) console.log(`  Worker: ${line}`);
      },
    });
    stops.push(() => worker.stop());
    const fleet = await makeFleet(worker.url, deviceCount);
    const startOneBridge = async (workerUrl = worker.url): Promise<Bridge> => {
      const bridge = await startBridge({
        workerUrl,
        secret: BRIDGE_SECRETS,
        mqttUrl: broker.url,
        stateDir,
        profileDir,
      });
      stops.push(() => bridge.stop());
      return bridge;
    };
    return { broker, worker, fleet, startBridge: startOneBridge, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
