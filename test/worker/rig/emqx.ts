// Bindings of a Worker that provisions devices through the API of EMQX. The test mocks that API.
import { env } from 'cloudflare:workers';

export const withEmqx = {
  ...env,
  BROKER_PROVISIONING: 'emqx',
  BROKER_API_URL: 'https://emqx.test:8443/',
  BROKER_API_KEY: 'key-of-the-tests',
  BROKER_API_SECRET: 'secret-of-the-tests',
} as unknown as Env;
