// Reads the environment into a typed configuration, once, at start, and reports all problems together with what to do.
// Nothing else reads process.env. Secrets are never printed.
import { X509Certificate } from 'node:crypto';
import { accessSync, constants, mkdirSync, readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { z } from 'zod';
import { describeError } from './log.ts';

export type MqttConfig = {
  url: string;
  clientId: string;
  username: string | undefined;
  password: string | undefined;
  ca: Buffer | undefined;
  cert: Buffer | undefined;
  key: Buffer | undefined;
  servername: string | undefined;
  protocol: 'auto' | '5' | '3.1.1';
};

export type BridgeConfig = {
  /** Without a trailing slash. */
  workerUrl: string;
  bridgeSecret: string;
  bridgeId: string;
  mqtt: MqttConfig;
  spool: { dir: string; maxBytes: number };
  health: { host: string; port: number } | undefined;
  log: { level: 'debug' | 'info' | 'warn' | 'error'; format: 'json' | 'pretty' };
};

const workerUrl = z
  .string({ error: 'is missing: set it to the base address of the Worker, such as https://api.example.com' })
  .refine(isUrlOf('http:', 'https:'), {
    error: 'must be an http:// or https:// address with a host and without a query',
    abort: true,
  })
  .refine(hasNoCredentials, 'must not hold a user name or a password: the Worker takes BRIDGE_SECRET, leave them out')
  .transform((text) => text.replace(/\/+$/, ''));

const mqttUrl = z
  .string({ error: 'is missing: set it to the address of the broker, such as mqtts://broker.example.com:8883' })
  .refine(isUrlOf('mqtt:', 'mqtts:', 'ws:', 'wss:'), {
    error: 'must be an mqtt://, mqtts://, ws:// or wss:// address with a host and without a query',
    abort: true,
  })
  .refine(hasNoCredentials, 'must not hold a user name or a password: put them into MQTT_USERNAME and MQTT_PASSWORD');

const wholeNumber = (least: number, most: number) =>
  z
    .string()
    .refine(
      (text) => /^\d+$/.test(text) && Number(text) >= least && Number(text) <= most,
      `must be a whole number from ${least} to ${most}`,
    )
    .transform(Number);

const oneOf = <const T extends readonly [string, ...string[]]>(values: T) =>
  z.enum(values, { error: `must be one of: ${values.join(', ')}` });

const environmentSchema = z.object({
  WORKER_URL: workerUrl,
  BRIDGE_SECRET: z
    .string({ error: 'is missing: set it to the secret that the Worker knows as BRIDGE_SECRET' })
    .regex(/^[\x21-\x7e]{32,}$/, 'must have at least 32 printable characters; make one with: openssl rand -hex 32'),
  BRIDGE_ID: z
    .string({ error: 'is missing: give this bridge a name that stays the same over restarts, such as bridge-1' })
    .regex(/^[A-Za-z0-9._-]{1,60}$/, 'must be 1-60 letters, digits, dots, underscores or dashes'),
  MQTT_URL: mqttUrl,
  MQTT_USERNAME: z.string().optional(),
  MQTT_PASSWORD: z.string().optional(),
  MQTT_CLIENT_ID: z.string().optional(),
  MQTT_CA_FILE: z.string().optional(),
  MQTT_CERT_FILE: z.string().optional(),
  MQTT_KEY_FILE: z.string().optional(),
  MQTT_SERVERNAME: z.string().optional(),
  MQTT_PROTOCOL: oneOf(['auto', '5', '3.1.1']).default('auto'),
  SPOOL_DIR: z.string({
    error: 'is missing: set it to a folder on storage that survives restarts; unsent messages are kept there',
  }),
  SPOOL_MAX_BYTES: wholeNumber(262_144, Number.MAX_SAFE_INTEGER).default(1_073_741_824),
  HEALTH_PORT: wholeNumber(0, 65_535).optional(),
  HEALTH_HOST: z.string().default('127.0.0.1'),
  LOG_LEVEL: oneOf(['debug', 'info', 'warn', 'error']).default('info'),
  LOG_FORMAT: oneOf(['json', 'pretty']).default('json'),
});

const tlsSettings = ['MQTT_CA_FILE', 'MQTT_CERT_FILE', 'MQTT_KEY_FILE', 'MQTT_SERVERNAME'];

/** Answers either a whole configuration or every problem found, each a line that says what to do. */
export function readConfig(environment: NodeJS.ProcessEnv): BridgeConfig | { problems: string[] } {
  // Compose files and shells hand over unset variables as empty strings.
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
  const parsed = environmentSchema.safeParse(given);
  const problems = parsed.success ? [] : parsed.error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`);

  const clientId = given['MQTT_CLIENT_ID'] ?? given['MQTT_USERNAME'];
  if (clientId === undefined) {
    problems.push('MQTT_CLIENT_ID is missing: set it (or MQTT_USERNAME), the broker keeps its queue under this name');
  }
  if (given['MQTT_PASSWORD'] !== undefined && given['MQTT_USERNAME'] === undefined) {
    problems.push('MQTT_USERNAME is missing: MQTT_PASSWORD needs it');
  }
  if ((given['MQTT_CERT_FILE'] === undefined) !== (given['MQTT_KEY_FILE'] === undefined)) {
    problems.push('MQTT_CERT_FILE and MQTT_KEY_FILE belong together: set both or neither');
  }
  const ca = readOptionalFile('MQTT_CA_FILE', given, problems);
  const cert = readOptionalFile('MQTT_CERT_FILE', given, problems);
  const key = readOptionalFile('MQTT_KEY_FILE', given, problems);
  if (tlsSettings.some((name) => given[name] !== undefined) && !/^(mqtts|wss):/.test(given['MQTT_URL'] ?? '')) {
    problems.push('MQTT_URL must be mqtts:// or wss:// where a CA, certificate or key file or a server name is given');
  }
  if (ca !== undefined) checkAuthorities(ca, problems);
  checkTls({ ca, cert, key }, problems);
  checkSpoolDir(given['SPOOL_DIR'], problems);

  if (!parsed.success || clientId === undefined || problems.length > 0) return { problems };
  const env = parsed.data;
  return {
    workerUrl: env.WORKER_URL,
    bridgeSecret: env.BRIDGE_SECRET,
    bridgeId: env.BRIDGE_ID,
    mqtt: {
      url: env.MQTT_URL,
      clientId,
      username: env.MQTT_USERNAME,
      password: env.MQTT_PASSWORD,
      ca,
      cert,
      key,
      servername: env.MQTT_SERVERNAME,
      protocol: env.MQTT_PROTOCOL,
    },
    spool: { dir: env.SPOOL_DIR, maxBytes: env.SPOOL_MAX_BYTES },
    health: env.HEALTH_PORT === undefined ? undefined : { host: env.HEALTH_HOST, port: env.HEALTH_PORT },
    log: { level: env.LOG_LEVEL, format: env.LOG_FORMAT },
  };
}

function isUrlOf(...protocols: string[]): (text: string) => boolean {
  return (text) => {
    const url = URL.parse(text);
    return url !== null && protocols.includes(url.protocol) && url.hostname !== '' && url.search === '';
  };
}

function hasNoCredentials(text: string): boolean {
  const url = URL.parse(text);
  return url?.username === '' && url.password === '';
}

function readOptionalFile(
  name: string,
  given: Record<string, string | undefined>,
  problems: string[],
): Buffer | undefined {
  const path = given[name];
  if (path === undefined) return undefined;
  try {
    return readFileSync(path);
  } catch (error) {
    problems.push(`${name} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}): ${path}`);
    return undefined;
  }
}

/** TLS reports nothing: it takes the authorities up to the first one that it cannot read, which may be none. */
function checkAuthorities(ca: Buffer, problems: string[]): void {
  const certificates = ca
    .toString('latin1')
    .split(/^(?=-----BEGIN )/m)
    .filter((block) => /^-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/.test(block));
  if (certificates.length === 0) {
    problems.push('MQTT_CA_FILE holds no certificate: give it the authority’s certificate in PEM form');
  }
  for (const [index, certificate] of certificates.entries()) {
    try {
      new X509Certificate(certificate);
    } catch (error) {
      problems.push(
        `MQTT_CA_FILE: certificate ${index + 1} of ${certificates.length} cannot be read; replace it or take it out (${describeError(error)})`,
      );
    }
  }
}

function checkTls(files: Pick<MqttConfig, 'ca' | 'cert' | 'key'>, problems: string[]): void {
  try {
    createSecureContext(files);
  } catch (error) {
    problems.push(`MQTT_CA_FILE, MQTT_CERT_FILE and MQTT_KEY_FILE cannot be used together: ${describeError(error)}`);
  }
}

function checkSpoolDir(dir: string | undefined, problems: string[]): void {
  if (dir === undefined) return;
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown';
    problems.push(`SPOOL_DIR cannot be written (${code}): make the folder and give it to the user of this process`);
  }
}
