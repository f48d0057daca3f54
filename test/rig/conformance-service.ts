// The whole service for the conformance suite, once for all its files. Asserts nothing; ends what it started.
import type { TestProject } from 'vitest/node';
import { WholeService } from './whole-service.ts';
import { hookSecret, jwtSecrets } from './worker-rig.ts';

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

export default async function startService(project: TestProject): Promise<() => Promise<void>> {
  const service = await WholeService.start({ CORS_ORIGINS: allowedOrigin });
  const { url, mqttUrl, mqttPort } = service.rig;
  project.provide('service', { url, mqttUrl, mqttPort, jwtSecrets, hookSecret, allowedOrigin });
  return () => service.stop();
}
