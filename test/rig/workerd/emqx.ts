// A Worker whose broker is EMQX, told its devices through its API. Who answers there is the test's matter.
import { env } from 'cloudflare:workers';

export const withEmqx = {
  ...env,
  BROKER_PROVISIONING: 'emqx',
  BROKER_API_URL: 'https://emqx.test:8443/',
  BROKER_API_KEY: 'key-of-the-tests',
  BROKER_API_SECRET: 'secret-of-the-tests',
} as unknown as Env;
