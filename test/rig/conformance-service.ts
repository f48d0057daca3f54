// The whole service for the conformance suite, once for all its files: the built Worker, the local broker and the
// production bridge as processes of their own, on free ports. Asserts nothing; ends what it started.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestProject } from 'vitest/node';
import { startBuiltWorker } from '../../dev/built-worker.ts';
import { bridgePart, brokerPart, type Place } from '../../dev/parts.ts';
import { killGroup } from '../../dev/process-groups.ts';
import { loadSecrets } from '../../dev/secrets.ts';
import { findFreePort } from './ports.ts';

export type Service = {
  url: string;
  mqttUrl: string;
  mqttPort: number;
  /** The first signs, both are believed (`kid:secret`). */
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

const patienceMs = 30_000;
const allowedOrigin = 'https://app.example.test';

export default async function startService(project: TestProject): Promise<() => Promise<void>> {
  const stateDir = mkdtempSync(join(tmpdir(), 'latchwork-conformance-'));
  const [mqtt, ws, brokerAdmin, bridgeHealth] = [
    await findFreePort(),
    await findFreePort(),
    await findFreePort(),
    await findFreePort(),
  ];
  const { BROKER_API_KEY, BROKER_API_SECRET, ...secrets } = loadSecrets(stateDir);
  const worker = await startBuiltWorker({
    stateDir,
    vars: {
      MQTT_HOST: '127.0.0.1',
      MQTT_PORT: String(mqtt),
      BROKER_REPORTS_CONNECTIONS: 'true',
      BROKER_API_URL: `http://127.0.0.1:${brokerAdmin}`,
      BROKER_API_KEY,
      BROKER_API_SECRET,
      CORS_ORIGINS: allowedOrigin,
      RATE_LIMITS: 'relaxed',
    },
    secrets,
  });
  const place: Place = {
    stateDir,
    bindHost: '127.0.0.1',
    shownHost: '127.0.0.1',
    ports: { api: Number(new URL(worker.url).port), mqtt, ws, brokerAdmin, bridgeHealth },
    secrets: { BROKER_API_KEY, BROKER_API_SECRET, ...secrets },
  };
  const parts = [brokerPart(place), bridgePart(place)].map(({ name, spawn }) => ({ name, child: spawn(), output: '' }));
  for (const part of parts) {
    for (const stream of [part.child.stdout, part.child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (part.output = (part.output + chunk.toString()).slice(-4_000)));
    }
  }
  const stop = async () => {
    for (const { child } of parts) if (child.pid !== undefined) killGroup(child.pid);
    await worker.stop();
    rmSync(stateDir, { recursive: true, force: true });
  };
  try {
    await untilHealthy(worker.url, () => parts.map(({ name, output }) => `${name}:\n${output}`).join('\n'));
  } catch (error) {
    await stop();
    throw error;
  }
  project.provide('service', {
    url: worker.url,
    mqttUrl: `mqtt://127.0.0.1:${mqtt}`,
    mqttPort: mqtt,
    jwtSecrets: secrets.JWT_SECRETS,
    hookSecret: secrets.BROKER_HOOK_SECRETS,
    allowedOrigin,
  });
  return stop;
}

async function untilHealthy(url: string, describe: () => string): Promise<void> {
  const deadlineMs = Date.now() + patienceMs;
  while (!(await fetch(`${url}/health`)).ok) {
    if (Date.now() > deadlineMs) throw new Error(`The service is not healthy within ${patienceMs} ms.\n${describe()}`);
    await sleep(50);
  }
}
