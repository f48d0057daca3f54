// Reads the environment into a typed configuration, once, at start, and reports all problems together with what to do.
// Nothing else reads process.env. Secrets are never printed.
import { z } from 'zod';
import * as settings from '../../node-service/environment.ts';
import { readCertificate } from './certificate.ts';

export type GatewayConfig = ReturnType<typeof toConfig>;

/** A port; null if the gateway does not listen. */
const listening = z.union([z.literal('off').transform(() => null), settings.wholeNumber(1, 65_535)], {
  error: 'must be a port from 1 to 65535, or off',
});

const fixedLimits = {
  /** From the first byte of TCP to the Worker's first answer; a device on a slow network needs a few seconds. */
  handshakeMs: 10_000,
  /** 1.5 times the longest keep-alive that the service hands out. */
  idleMs: 5_400_000,
  /** How long a device may leave unread the bytes that wait for it: longer than a lost radio link, shorter than memory lasts. */
  unreadMs: 60_000,
};

const environmentSchema = z.object({
  ...settings.commonSettings('GATEWAY_SECRET'),
  GATEWAY_SECRET: settings.sharedSecret('GATEWAY_SECRETS'),
  LISTEN_HOST: z.string().optional(),
  MQTT_PORT: listening.prefault('1883'),
  MQTT_TLS_PORT: listening.optional(),
  TLS_CERT_FILE: z.string().optional(),
  TLS_KEY_FILE: z.string().optional(),
  MAX_CONNECTIONS: settings.wholeNumber(1, 1_000_000).default(10_000),
  MAX_CONNECTIONS_PER_ADDRESS: settings.wholeNumber(1, 1_000_000).default(1_000),
  MAX_UNAUTHENTICATED: settings.wholeNumber(1, 1_000_000).default(1_000),
  MAX_UNAUTHENTICATED_PER_ADDRESS: settings.wholeNumber(1, 1_000_000).default(100),
  DRAIN_SECONDS: settings.wholeNumber(0, 300).default(5),
});

/** @returns a whole configuration or every problem, each with the remedy */
export function readConfig(environment: NodeJS.ProcessEnv): GatewayConfig | { problems: string[] } {
  const { given, data, problems } = settings.readSettings(environmentSchema, environment, ['GATEWAY_SECRET']);
  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile, MQTT_TLS_PORT: tlsPort } = given;
  settings.checkKeyPair(given, ['TLS_CERT_FILE', 'TLS_KEY_FILE'], problems);
  if (tlsPort !== undefined && tlsPort !== 'off' && certFile === undefined) {
    problems.push('TLS_CERT_FILE is missing: MQTT_TLS_PORT needs a certificate');
  }
  if (given['MQTT_PORT'] === 'off' && (certFile === undefined || tlsPort === 'off')) {
    problems.push('MQTT_PORT is off and there is no port for TLS: set one of the two');
  }
  const files = ['TLS_CERT_FILE', 'TLS_KEY_FILE'].map((name) => settings.readSettingFile(given, name, problems));
  if (certFile !== undefined && keyFile !== undefined && !files.includes(undefined)) {
    const explain = ({ message }: Error): string => message;
    settings.attempt(problems, () => readCertificate({ certFile, keyFile }), explain);
  }
  return data === undefined || problems.length > 0 ? { problems } : toConfig(data);
}

function toConfig(env: z.infer<typeof environmentSchema>) {
  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile, MQTT_TLS_PORT: port = 8883 } = env;
  return {
    worker: { url: env.WORKER_URL, secret: env.GATEWAY_SECRET },
    host: env.LISTEN_HOST,
    tcpPort: env.MQTT_PORT,
    tls: port === null || certFile === undefined || keyFile === undefined ? null : { port, certFile, keyFile },
    limits: {
      connections: env.MAX_CONNECTIONS,
      connectionsPerAddress: env.MAX_CONNECTIONS_PER_ADDRESS,
      unauthenticated: env.MAX_UNAUTHENTICATED,
      unauthenticatedPerAddress: env.MAX_UNAUTHENTICATED_PER_ADDRESS,
      ...fixedLimits,
    },
    drainMs: env.DRAIN_SECONDS * 1000,
    ...settings.toCommonConfig(env),
  };
}
