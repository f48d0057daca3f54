// The settings of a server: DIR/settings.env, over which the environment goes, and DIR/secrets.env. Read once, checked, and all problems
// reported together with what to do. Never prints a secret.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import * as settings from '../node-service/environment.ts';
import { findSettingProblems } from '../src/config.ts';
import { readVars } from '../dev/local/settings.ts';
import { type LocalSecrets, type Place, secretNames, workerBindings } from '../rig/services/parts.ts';

export const settingsFile = 'settings.env';
export const secretsFile = 'secrets.env';

/** What an operator has to change before the command can work. */
export class ProblemsError extends Error {
  override readonly name = 'ProblemsError';
  readonly problems: string[];

  constructor(problems: string[]) {
    super(problems.join('; '));
    this.problems = problems;
  }
}

/** Vars of the Worker that follow from other settings. */
const followed = ['BROKER', 'MQTT_HOST', 'MQTT_PORT', 'MQTT_TLS_PORT'];

/** A site with all its devices is behind one address. After a restart they come back while their former connections end. */
const gatewayLimits = {
  MAX_CONNECTIONS_PER_ADDRESS: '4000',
  MAX_UNAUTHENTICATED: '4000',
  MAX_UNAUTHENTICATED_PER_ADDRESS: '2000',
};

const loopbackAlone =
  'must be a port from 1 to 65535, of 127.0.0.1: for other machines use a reverse proxy, or HTTPS_PORT with a certificate';

const settingsSchema = z.object({
  PUBLIC_HOST: z
    .string({ error: 'is missing: set it to the name or IPv4 address that devices reach this machine by' })
    .regex(/^[A-Za-z0-9.-]+$/, 'must be a bare host name or IPv4 address'),
  API_PORT: settings.wholeNumber(1, 65_535, loopbackAlone).default(8787),
  HTTPS_PORT: settings.portOrOff.default(null),
  MQTT_PORT: settings.portOrOff.prefault('1883'),
  MQTT_TLS_PORT: settings.portOrOff.optional(),
  TLS_CERT_FILE: z.string().optional(),
  TLS_KEY_FILE: z.string().optional(),
  BROKER_URL: settings
    .address('broker', 'an mqtt:// or mqtts://', ['mqtt:', 'mqtts:'], 'the bridge logs in with BRIDGE_MQTT_PASSWORDS')
    .optional(),
  HEALTH_PORT: settings.wholeNumber(1, 65_534).default(9465),
});

export type Server = {
  place: Place;
  /** Where browsers and applications reach the API with TLS without a reverse proxy. */
  https: { port: number; certFile: string; keyFile: string } | undefined;
  /** Of the gateway; undefined: it does not run. */
  gateway: Record<string, string> | undefined;
  /** Of the bridge; undefined: there is no broker. */
  bridge: Record<string, string> | undefined;
};

/** @throws ProblemsError */
export function readServer(dataDir: string, environment: NodeJS.ProcessEnv): Server {
  const [inFile, secrets] = [settingsFile, secretsFile].map((name) => readEnvFile(join(dataDir, name))) as [
    NodeJS.Dict<string>,
    NodeJS.Dict<string>,
  ];
  const vars = readVars();
  const { given, data, problems } = settings.readSettings(settingsSchema, { ...inFile, ...environment }, []);
  const unknown = Object.keys(inFile).filter((name) => !(name in settingsSchema.shape) && !(name in vars));
  problems.push(...unknown.map((name) => `${name} in ${settingsFile} is no setting: remove it or correct its name`));
  for (const name of secretNames.filter((secret) => secrets[secret] === undefined)) {
    problems.push(`${name} is missing in ${secretsFile}: take it from a backup, or let serve init add a new one`);
  }
  for (const name of ['GATEWAY_SECRETS', 'OPERATOR_SECRETS']) {
    if (secrets[name] === '') problems.push(`${name} in ${secretsFile} is empty: it needs 32 characters`);
  }
  settings.checkKeyPair(given, ['TLS_CERT_FILE', 'TLS_KEY_FILE'], problems);
  const tlsPorts = ['HTTPS_PORT', 'MQTT_TLS_PORT'].filter((name) => (given[name] ?? 'off') !== 'off');
  if (given['TLS_CERT_FILE'] === undefined && tlsPorts.length > 0) {
    problems.push(`TLS_CERT_FILE is missing: ${tlsPorts.join(' and ')} need a certificate`);
  }
  if (given['RATE_LIMITS'] !== undefined && given['RATE_LIMITS'] !== 'production') {
    problems.push('RATE_LIMITS must be production on a server: remove the setting');
  }
  if (given['WEBHOOKS_MAY_BE_LOCAL'] === 'true') {
    problems.push('WEBHOOKS_MAY_BE_LOCAL must be false on a server: users could make it call this network');
  }
  if (data === undefined) throw new ProblemsError(problems);

  const server = toServer(dataDir, data, secrets as LocalSecrets, pick(given, Object.keys(vars)));
  const ofWorker = findSettingProblems({ ...vars, ...workerBindings(server.place) });
  problems.push(...ofWorker.map(({ name, problem }) => `${name} ${problem}`));
  if (problems.length > 0) throw new ProblemsError([...new Set(problems)]);
  return server;
}

function toServer(
  stateDir: string,
  data: z.infer<typeof settingsSchema>,
  secrets: LocalSecrets,
  ofWorker: Record<string, string>,
): Server {
  const { PUBLIC_HOST, API_PORT, HTTPS_PORT, MQTT_PORT, TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } = data;
  const files = certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile };
  const tlsPort = data.MQTT_TLS_PORT === undefined && files !== undefined ? 8883 : (data.MQTT_TLS_PORT ?? null);
  const broker = data.BROKER_URL === undefined ? undefined : new URL(data.BROKER_URL);
  // What activated devices are told: the gateway, or the broker with its usual ports beside the one that is known.
  const told =
    broker === undefined
      ? { host: PUBLIC_HOST, mqtt: MQTT_PORT ?? 1883, tls: tlsPort ?? 8883 }
      : {
          host: settings.isPlaintext(`mqtt://${broker.hostname}`) ? broker.hostname : PUBLIC_HOST,
          mqtt: broker.protocol === 'mqtt:' ? Number(broker.port || 1883) : 1883,
          tls: broker.protocol === 'mqtts:' ? Number(broker.port || 8883) : 8883,
        };
  const place: Place = {
    stateDir,
    bindHost: '127.0.0.1',
    shownHost: told.host,
    hasBroker: broker !== undefined,
    ports: { api: API_PORT, mqtt: told.mqtt, ws: 0, brokerAdmin: 0, health: data.HEALTH_PORT },
    secrets,
    vars: { ...ofWorker, MQTT_TLS_PORT: String(told.tls) },
  };
  const tls = files === undefined ? {} : { TLS_CERT_FILE: files.certFile, TLS_KEY_FILE: files.keyFile };
  const ports = { MQTT_PORT: String(MQTT_PORT ?? 'off'), MQTT_TLS_PORT: String(tlsPort ?? 'off') };
  const gateway = { LISTEN_HOST: '', ...ports, ...tls, ...gatewayLimits };
  const bridge = { MQTT_URL: data.BROKER_URL ?? '', HEALTH_PORT: String(data.HEALTH_PORT + 1) };
  return {
    place,
    https: files === undefined || HTTPS_PORT === null ? undefined : { port: HTTPS_PORT, ...files },
    gateway: MQTT_PORT === null && tlsPort === null ? undefined : gateway,
    bridge: broker === undefined ? undefined : bridge,
  };
}

/** @throws ProblemsError if there is no such file */
function readEnvFile(path: string): NodeJS.Dict<string> {
  if (existsSync(path)) return parseEnv(readFileSync(path, 'utf8'));
  throw new ProblemsError([`${path} is missing: npm run serve -- init --host NAME --data DIR makes it`]);
}

function pick(given: settings.Environment, names: string[]): Record<string, string> {
  const own = names.filter((name) => !followed.includes(name));
  return Object.fromEntries(own.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]])));
}
