// Reads the environment into a typed configuration, once, at start, and reports all problems together with what to do.
// Nothing else reads process.env. Secrets are never printed.
import { networkInterfaces } from 'node:os';
import { z } from 'zod';
import * as settings from '../../node-service/environment.ts';

export type MatterConfig = ReturnType<typeof toConfig>;

const environmentSchema = z.object({
  ...settings.commonSettings('API_KEY'),
  API_KEY_ID: z
    .string({ error: 'is missing: set it to the keyId of an API key with the scopes read and control' })
    .regex(/^ak_[\x21-\x7e]+$/, 'must be the keyId of an API key: it begins with ak_'),
  API_KEY: z
    .string({ error: 'is missing: set it to the apiKey that was shown when the key was made' })
    .regex(/^sk_[\x21-\x7e]+$/, 'must be the apiKey of an API key: it begins with sk_'),
  STORAGE_DIR: z.string({ error: 'is missing: set it to a folder that lasts; it holds the keys of the pairings' }),
  MATTER_PORT: settings.wholeNumber(1024, 65_000).default(5540),
  MATTER_INTERFACE: z
    .string()
    .refine((name) => name in networkInterfaces(), 'must be a network interface of this machine, such as eth0')
    .optional(),
  DEVICES_PER_BRIDGE: settings.wholeNumber(1, 1000).default(100),
});

/** @returns a whole configuration or every problem, each with the remedy */
export function readConfig(environment: NodeJS.ProcessEnv): MatterConfig | { problems: string[] } {
  const { data, problems } = settings.readSettings(environmentSchema, environment, ['API_KEY']);
  return data === undefined || problems.length > 0 ? { problems } : toConfig(data);
}

function toConfig(env: z.infer<typeof environmentSchema>) {
  return {
    serviceUrl: env.WORKER_URL,
    credentials: { keyId: env.API_KEY_ID, apiKey: env.API_KEY },
    storageDir: env.STORAGE_DIR,
    firstPort: env.MATTER_PORT,
    networkInterface: env.MATTER_INTERFACE,
    devicesPerBridge: env.DEVICES_PER_BRIDGE,
    ...settings.toCommonConfig(env),
  };
}
