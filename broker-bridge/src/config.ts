// Reads the environment into a typed configuration, once, at start, and reports all problems together with what to do.
// Nothing else reads process.env. Secrets are never printed.
import { createHash, randomBytes, X509Certificate } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { z } from 'zod';
import * as settings from '../../node-service/environment.ts';
import { describeError } from '../../node-service/log.ts';

export type BridgeConfig = ReturnType<typeof toConfig>;
export type MqttConfig = BridgeConfig['mqtt'];
type TlsOptions = { ca?: Buffer; cert?: Buffer; key?: Buffer; servername?: string };

/** Announced to a broker with MQTT 5, which drops what is larger: a device's topic and payload fit into it many times. */
const maxPacketBytes = 262_144;
/** A device may send the messages of so many seconds at once, as it does after it was away. */
const burstSeconds = 20;
/** Years of single mistakes, or the last hours of a wrong firmware. */
const deadLettersMaxBytes = 52_428_800;
/** Of a message that fails while others are taken: with the back-off of its device about a minute. */
const maxTries = 10;

const environmentSchema = z.object({
  ...settings.commonSettings('BRIDGE_SECRET'),
  BRIDGE_SECRET: settings.sharedSecret('BRIDGE_SECRETS'),
  BRIDGE_ID: z
    .string({ error: 'is missing: give this bridge a name that stays the same over restarts, such as bridge-1' })
    .regex(/^[A-Za-z0-9._-]{1,60}$/, 'must be 1-60 letters, digits, dots, underscores or dashes'),
  MQTT_URL: settings.address(
    'address of the broker, such as mqtts://broker.example.com:8883',
    'an mqtt:// or mqtts://',
    ['mqtt:', 'mqtts:'],
    'put them into MQTT_USERNAME and MQTT_PASSWORD',
  ),
  MQTT_USERNAME: z.string().optional(),
  MQTT_PASSWORD: z.string().optional(),
  MQTT_PROTOCOL: settings.oneOf(['auto', '5', '3.1.1']).default('auto'),
  SPOOL_DIR: z.string({
    error: 'is missing: set it to a folder on storage that survives restarts; unsent messages are kept there',
  }),
  SPOOL_MAX_BYTES: settings.wholeNumber(262_144, Number.MAX_SAFE_INTEGER).default(1_073_741_824),
  DEVICE_MESSAGES_PER_SECOND: settings.wholeNumber(1, 1_000_000).default(50),
  UPLINK_STALLED_AFTER_SECONDS: settings.wholeNumber(1, 86_400).default(60),
});

/** @returns a whole configuration or every problem, each with the remedy */
export function readConfig(environment: NodeJS.ProcessEnv): BridgeConfig | { problems: string[] } {
  const { given, data, problems } = settings.readSettings(environmentSchema, environment, [
    'BRIDGE_SECRET',
    'MQTT_PASSWORD',
  ]);
  if (given['MQTT_PASSWORD'] !== undefined && given['MQTT_USERNAME'] === undefined) {
    problems.push('MQTT_USERNAME is missing: MQTT_PASSWORD needs it');
  }
  settings.checkKeyPair(given, ['MQTT_CERT_FILE', 'MQTT_KEY_FILE'], problems);
  const tls: TlsOptions = given['MQTT_SERVERNAME'] === undefined ? {} : { servername: given['MQTT_SERVERNAME'] };
  for (const member of ['ca', 'cert', 'key'] as const) {
    const file = settings.readSettingFile(given, `MQTT_${member.toUpperCase()}_FILE`, problems);
    if (file !== undefined) tls[member] = file;
  }
  const usesTls = Object.keys(given).some((name) => /^MQTT_(CA_FILE|CERT_FILE|KEY_FILE|SERVERNAME)$/.test(name));
  if (usesTls && given['MQTT_URL']?.startsWith('mqtts:') !== true) {
    problems.push('MQTT_URL must be mqtts:// if a CA, certificate or key file or a server name is given');
  }
  if (tls.ca !== undefined) {
    const { ca } = tls;
    const explain = (error: Error): string =>
      `MQTT_CA_FILE does not begin with a certificate in PEM form, as of the broker's authority: ${describeError(error)}`;
    // TLS reports nothing: it takes the authorities up to the first one that it cannot read, which may be none.
    settings.attempt(problems, () => new X509Certificate(ca.toString()), explain);
  }
  const explainTls = (error: Error): string =>
    `MQTT_CA_FILE, MQTT_CERT_FILE and MQTT_KEY_FILE cannot be used together: ${describeError(error)}`;
  settings.attempt(problems, () => createSecureContext(tls), explainTls);
  const explainDir = ({ code }: NodeJS.ErrnoException): string =>
    `SPOOL_DIR cannot be written (${code ?? 'unknown'}): make the folder and give it to the user of this process`;
  const dir = given['SPOOL_DIR'];
  if (dir !== undefined) settings.attempt(problems, () => makeWritableDir(dir), explainDir);
  let clientId = given['MQTT_CLIENT_ID'];
  if (clientId === undefined && dir !== undefined && problems.length === 0) {
    const explainClientId = (error: Error): string =>
      `MQTT_CLIENT_ID is not set, and SPOOL_DIR/mqtt-client-id cannot be used: ${describeError(error)}`;
    settings.attempt(problems, () => (clientId = keptClientId(dir)), explainClientId);
  }

  if (data === undefined || clientId === undefined || problems.length > 0) return { problems };
  return toConfig(data, clientId, tls);
}

function toConfig(env: z.infer<typeof environmentSchema>, clientId: string, tls: TlsOptions) {
  const { MQTT_URL: url, MQTT_USERNAME: username, MQTT_PASSWORD: password, MQTT_PROTOCOL: protocol } = env;
  return {
    workerUrl: env.WORKER_URL,
    bridgeSecret: env.BRIDGE_SECRET,
    bridgeId: env.BRIDGE_ID,
    mqtt: { url, clientId, username, password, tls, protocol, maxPacketBytes },
    /** Names the session at the broker to the Worker. The client id itself is a secret. */
    sessionDigest: createHash('sha256').update(clientId).digest('hex').slice(0, 32),
    spool: { dir: env.SPOOL_DIR, maxBytes: env.SPOOL_MAX_BYTES },
    rates: { messagesPerSecond: env.DEVICE_MESSAGES_PER_SECOND, burst: env.DEVICE_MESSAGES_PER_SECOND * burstSeconds },
    deadLetters: { dir: env.SPOOL_DIR, maxBytes: deadLettersMaxBytes },
    uplink: { maxTries, stalledAfterMs: env.UPLINK_STALLED_AFTER_SECONDS * 1000 },
    ...settings.toCommonConfig(env),
  };
}

/** A full or read-only disk is the spool's to report: it may pass. */
function makeWritableDir(dir: string): void {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    if (!['EROFS', 'ENOSPC'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

/**
 * A secret: brokers that do not bind it to a login hand the session to any client that names it, subscriptions included.
 * @throws Error if the file cannot be written, read or used
 */
export function keptClientId(spoolDir: string): string {
  const path = join(spoolDir, 'mqtt-client-id');
  if (!existsSync(path)) {
    const made = `latchwork-bridge-${randomBytes(16).toString('hex')}`;
    writeFileSync(`${path}.new`, `${made}\n`, { mode: 0o600, flush: true });
    renameSync(`${path}.new`, path);
  }
  const clientId = readFileSync(path, 'utf8').trim();
  if (!/^latchwork-bridge-[0-9a-f]{32}$/.test(clientId)) throw new Error('it does not hold a client id');
  return clientId;
}
