// The whole service for the conformance suite, once for all its files, by the way in that the project's name says. Asserts
// nothing; ends what it started.
import type { TestProject } from 'vitest/node';
import { WholeService } from './whole-service.ts';
import { hookSecret, jwtSecrets } from '../worker/worker-rig.ts';

export type Service = {
  url: string;
  /** Where devices connect; `{deviceId}` in it is theirs. */
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
  const vars = { CORS_ORIGINS: allowedOrigin };
  // Devices on the path of their own beside a broker, and through the gateway if there is none.
  const isGateway = project.name === 'conformance-gateway';
  const service = await (isGateway ? WholeService.startWithGateway(vars) : WholeService.start(vars));
  const { url, mqttUrl, mqttPort } = service.rig;
  project.provide('service', {
    ...{ url, mqttPort, jwtSecrets, hookSecret, allowedOrigin },
    mqttUrl: project.name === 'conformance-direct' ? `${service.directUrl}/{deviceId}` : mqttUrl,
  });
  return () => service.stop();
}
