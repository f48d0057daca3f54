// The whole service for the conformance suite, once for all its files: the built Worker, the local broker and the
// production bridge as processes of their own, on free ports. Asserts nothing; ends what it started.
import type { TestProject } from 'vitest/node';
import { bridgePassword, bridgeSecret } from './bridge-process.ts';
import { killGroup } from './built-worker.ts';
import { brokerPart } from './parts.ts';
import { findFreePort } from './ports.ts';
import { hookSecret, jwtSecrets, WorkerRig } from './worker-rig.ts';

export type Service = {
  url: string;
  mqttUrl: string;
  mqttPort: number;
  /** `kid:secret`. */
  jwtSecrets: string;
  hookSecret: string;
  /** An origin whose browser applications may call. */
  allowedOrigin: string;
};

declare module 'vitest' {
  // eslint-disable-next-line @typescript-eslint/consistent-type-definitions -- only interfaces merge
  interface ProvidedContext {
    service: Service;
  }
}

const allowedOrigin = 'https://app.example.test';
const brokerApi = { BROKER_API_KEY: 'conformance', BROKER_API_SECRET: 'secret-of-the-broker-api' };

export default async function startService(project: TestProject): Promise<() => Promise<void>> {
  const brokerAdmin = await findFreePort();
  const rig = await WorkerRig.start({
    vars: {
      ...brokerApi,
      BROKER_REPORTS_CONNECTIONS: 'true',
      BROKER_API_URL: `http://127.0.0.1:${brokerAdmin}`,
      CORS_ORIGINS: allowedOrigin,
    },
  });
  const broker = brokerPart({
    stateDir: rig.stateDir,
    bindHost: '127.0.0.1',
    shownHost: '127.0.0.1',
    ports: { api: rig.port, mqtt: rig.mqttPort, ws: await findFreePort(), brokerAdmin, bridgeHealth: 0 },
    secrets: {
      ...brokerApi,
      JWT_SECRETS: jwtSecrets,
      BRIDGE_SECRETS: bridgeSecret,
      BRIDGE_MQTT_PASSWORDS: bridgePassword,
      SEALING_SECRETS: 'sealing-secret-of-the-conformance-tests',
      BROKER_HOOK_SECRETS: hookSecret,
    },
  }).spawn();
  let output = '';
  for (const stream of [broker.stdout, broker.stderr]) {
    stream?.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(-4_000)));
  }
  const stop = async () => {
    if (broker.pid !== undefined) killGroup(broker.pid);
    await rig.stop();
  };
  try {
    rig.startBridge({ environment: { MQTT_PROTOCOL: '3.1.1' } });
    await rig.untilHealthy();
  } catch (error) {
    await stop();
    throw new Error(`The service did not start. Its broker printed:\n${output}`, { cause: error });
  }
  const { url, mqttUrl, mqttPort } = rig;
  project.provide('service', { url, mqttUrl, mqttPort, jwtSecrets, hookSecret, allowedOrigin });
  return stop;
}
