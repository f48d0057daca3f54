// Reads the environment into a typed configuration, once, at start, and reports all problems together with what to do.
// Nothing else reads process.env. Secrets are never printed.
import { z } from 'zod';
import {
  addSecretsFromFiles,
  address,
  attempt,
  oneOf,
  sharedSecret,
  wholeNumber,
  withoutEmpty,
} from '../../node-service/environment.ts';
import { readCertificate } from './certificate.ts';

export type GatewayConfig = ReturnType<typeof toConfig>;

/** A port; null where the gateway does not listen. */
const listening = z.union([z.literal('off').transform(() => null), wholeNumber(1, 65_535)], {
  error: 'must be a port from 1 to 65535, or off',
});

/** Those that no operator has a reason to move. */
const fixedLimits = {
  /** From the first byte of TCP to the Worker's first answer; a device on a slow network needs a few seconds. */
  handshakeMs: 10_000,
  /** 1.5 times the longest keep-alive that the service hands out. */
  idleMs: 5_400_000,
  /** How long a device may take nothing of what waits for it: longer than a lost radio link, shorter than memory lasts. */
  unreadMs: 60_000,
};

const environmentSchema = z.object({
  WORKER_URL: address(
    'base address of the Worker, such as https://api.example.com',
    'an http:// or https://',
    ['http:', 'https:'],
    'the Worker takes GATEWAY_SECRET, leave them out',
  ).transform((text) => text.replace(/\/+$/, '')),
  GATEWAY_SECRET: sharedSecret('GATEWAY_SECRETS'),
  LISTEN_HOST: z.string().optional(),
  MQTT_PORT: listening.prefault('1883'),
  MQTT_TLS_PORT: listening.optional(),
  TLS_CERT_FILE: z.string().optional(),
  TLS_KEY_FILE: z.string().optional(),
  MAX_CONNECTIONS: wholeNumber(1, 1_000_000).default(10_000),
  MAX_UNAUTHENTICATED: wholeNumber(1, 1_000_000).default(1_000),
  MAX_UNAUTHENTICATED_PER_ADDRESS: wholeNumber(1, 1_000_000).default(100),
  DRAIN_SECONDS: wholeNumber(0, 300).default(5),
  HEALTH_PORT: wholeNumber(0, 65_535).optional(),
  HEALTH_HOST: z.string().default('127.0.0.1'),
  LOG_LEVEL: oneOf(['debug', 'info', 'warn', 'error']).default('info'),
  LOG_FORMAT: oneOf(['json', 'pretty']).default('json'),
});

type Settings = z.infer<typeof environmentSchema>;

/** Answers either a whole configuration or every problem found, each a line that says what to do. */
export function readConfig(environment: NodeJS.ProcessEnv): GatewayConfig | { problems: string[] } {
  const given = withoutEmpty(environment);
  const problems: string[] = [];
  addSecretsFromFiles(given, ['GATEWAY_SECRET'], problems);
  const parsed = environmentSchema.safeParse(given);
  if (!parsed.success) problems.push(...parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`));

  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile, MQTT_TLS_PORT: tlsPort } = given;
  if ((certFile === undefined) !== (keyFile === undefined)) {
    problems.push('TLS_CERT_FILE and TLS_KEY_FILE belong together: set both or neither');
  }
  if (tlsPort !== undefined && tlsPort !== 'off' && certFile === undefined) {
    problems.push('TLS_CERT_FILE is missing: MQTT_TLS_PORT needs a certificate');
  }
  if (given['MQTT_PORT'] === 'off' && (certFile === undefined || tlsPort === 'off')) {
    problems.push('MQTT_PORT is off and there is no port for TLS: set one of the two');
  }
  if (certFile !== undefined && keyFile !== undefined) {
    attempt(
      problems,
      () => readCertificate({ certFile, keyFile }),
      (error) => error.message,
    );
  }
  if (!parsed.success || problems.length > 0) return { problems };
  return toConfig(parsed.data);
}

function toConfig(env: Settings) {
  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } = env;
  const { MQTT_TLS_PORT: tlsPort = 8883 } = env;
  return {
    worker: { url: env.WORKER_URL, secret: env.GATEWAY_SECRET },
    host: env.LISTEN_HOST,
    tcpPort: env.MQTT_PORT,
    tls:
      tlsPort === null || certFile === undefined || keyFile === undefined ? null : { port: tlsPort, certFile, keyFile },
    limits: {
      connections: env.MAX_CONNECTIONS,
      unauthenticated: env.MAX_UNAUTHENTICATED,
      unauthenticatedPerAddress: env.MAX_UNAUTHENTICATED_PER_ADDRESS,
      ...fixedLimits,
    },
    drainMs: env.DRAIN_SECONDS * 1000,
    health: env.HEALTH_PORT === undefined ? undefined : { host: env.HEALTH_HOST, port: env.HEALTH_PORT },
    log: { level: env.LOG_LEVEL, format: env.LOG_FORMAT },
  };
}
