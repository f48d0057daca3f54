// The settings of a server: DIR/settings.env, over which the environment goes, and DIR/secrets.env. Read once, checked, and all problems
// reported together with what to do. Never prints a secret.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { findLocalVars, readVars } from '../dev/local/settings.ts';
import { type CertificateFiles, readCertificate } from '../mqtt-gateway/src/certificate.ts';
import { type LocalSecrets, type Place, secretNames, workerBindings } from '../rig/services/parts.ts';
import { findSettingProblems } from '../src/config.ts';

export const settingsFile = 'settings.env';
const secretsFile = 'secrets.env';
/** The others are for services that not every server has. */
const neededSecrets = secretNames.filter((name) => !/^(VAPID|BROKER_API)_/.test(name));
export const settingsExample = readFileSync(new URL('settings.env.example', import.meta.url), 'utf8');
const defaults = parseEnv(settingsExample);

/**
 * A site with all its devices is behind one address. After a restart 1 000 devices come back at once, some of them more than once, while
 * their former connections end.
 */
export const siteLimits = {
  ofWorker: { DIRECT_LIMIT: 6_000 },
  ofGateway: {
    // There is no other gateway for the devices meanwhile.
    DRAIN_SECONDS: '0',
    MAX_CONNECTIONS_PER_ADDRESS: '4000',
    MAX_UNAUTHENTICATED: '4000',
    MAX_UNAUTHENTICATED_PER_ADDRESS: '2000',
  },
};

/** What an operator has to change before a command can work, a line each. */
export class ProblemsError extends Error {
  override readonly name = 'ProblemsError';
}

export type Server = ReturnType<typeof readServer>;

/** @throws ProblemsError */
export function readServer(stateDir: string, environment: NodeJS.ProcessEnv) {
  const inFile = readEnvFile(join(stateDir, settingsFile));
  const secrets = readEnvFile(join(stateDir, secretsFile));
  const vars = readVars();
  const names = Object.keys({ ...vars, ...defaults });
  const inEnvironment = names.filter((name) => (environment[name] ?? '') !== '');
  const chosen: NodeJS.Dict<string> = { ...defaults, ...inFile };
  for (const name of inEnvironment) chosen[name] = environment[name];
  const textOf = (name: string): string => chosen[name] ?? '';

  const unknown = Object.keys(inFile).filter((name) => !names.includes(name));
  const problems = unknown.map((name) => `${name} in ${settingsFile} is no setting: correct its name or remove it`);
  for (const name of neededSecrets.filter((secret) => (secrets[secret] ?? '') === '')) {
    problems.push(`${name} is missing in ${secretsFile}: take it from a backup, or let serve init add a new one`);
  }
  /** undefined: off. */
  const portOf = (name: string, orOff = ', or off'): number | undefined => {
    const port = Number(textOf(name));
    if (Number.isInteger(port) && port > 0 && port < 65_536) return port;
    const isOff = textOf(name) === 'off' && orOff !== '';
    if (!isOff) problems.push(`${name} is "${textOf(name)}": give a port of this machine from 1 to 65535${orOff}`);
    return undefined;
  };
  // Of loopback: the API and metrics speak plain HTTP. Other machines reach the API through a reverse proxy or the front.
  const [api = 0, health = 0] = [portOf('API_PORT', ''), portOf('HEALTH_PORT', '')];
  const https = portOf('HTTPS_PORT');
  const gateway = { tcp: portOf('GATEWAY_PORT'), tls: portOf('GATEWAY_TLS_PORT') };
  const files = { certFile: textOf('TLS_CERT_FILE'), keyFile: textOf('TLS_KEY_FILE') };
  if (https !== undefined || gateway.tls !== undefined) problems.push(...findCertificateProblems(files));
  problems.push(...findLocalVars(chosen));

  const hasBroker = textOf('MQTT_URL') !== '';
  const ofWorker = Object.keys(vars).flatMap((name) => (chosen[name] === undefined ? [] : [[name, chosen[name]]]));
  const place: Place = {
    stateDir,
    bindHost: '127.0.0.1',
    shownHost: textOf('MQTT_HOST'),
    hasBroker,
    ports: { api, mqtt: gateway.tcp ?? 1883, brokerAdmin: 0, health },
    ...(gateway.tls !== undefined && { tls: { port: gateway.tls, ...files } }),
    secrets: secrets as LocalSecrets,
    vars: Object.fromEntries(ofWorker) as Record<string, string>,
  };
  const ofVars = findSettingProblems({ ...vars, ...workerBindings(place) });
  problems.push(...ofVars.map(({ name, problem }) => `${name} ${problem}`));
  if (problems.length > 0) throw new ProblemsError([...new Set(problems)].join('\n'));
  return {
    place,
    /** Where everybody reaches the API with TLS, without a reverse proxy. */
    https: https === undefined ? undefined : { port: https, ...files },
    /** Environment of the gateway; undefined: devices connect to the broker alone. */
    gateway:
      gateway.tcp === undefined && gateway.tls === undefined
        ? undefined
        : { LISTEN_HOST: '', MQTT_PORT: textOf('GATEWAY_PORT'), ...siteLimits.ofGateway },
    /** Environment of the bridge; undefined: there is no broker. */
    bridge: hasBroker ? { MQTT_URL: textOf('MQTT_URL'), HEALTH_PORT: String(health + 1) } : undefined,
  };
}

function findCertificateProblems(files: CertificateFiles): string[] {
  if (files.certFile === '' || files.keyFile === '') {
    return ['TLS_CERT_FILE or TLS_KEY_FILE is missing: HTTPS_PORT and GATEWAY_TLS_PORT need a certificate'];
  }
  try {
    readCertificate(files);
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

/** @throws ProblemsError if there is no such file */
function readEnvFile(path: string): NodeJS.Dict<string> {
  if (existsSync(path)) return parseEnv(readFileSync(path, 'utf8'));
  throw new ProblemsError(`${path} is missing: npm run serve -- init --host NAME --data DIR makes it`);
}
