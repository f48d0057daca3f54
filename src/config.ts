// Vars and secrets of the Worker, read once an isolate into a checked Config. Nothing else reads a var from `env`.
// A missing or short secret fails every request with its name in the log, and /health names it; secrets have no default.
import { readLimits } from './limits.ts';
import { sampleInfoLines } from './log.ts';

/** Those of the platform, see DurableObjectLocationHint. */
const locationHints = [
  'wnam',
  'enam',
  'sam',
  'weur',
  'eeur',
  'apac',
  'apac-ne',
  'apac-se',
  'oc',
  'afr',
  'me',
] as const satisfies DurableObjectLocationHint[];

/** By isolate, unless the operator wants every line: a flood of requests must not become a flood of log lines. */
const infoLinesPerSecond = 100;

/** More than two: devices keep their passwords for as long as they live. */
const maxMessagingSecrets = 8;

const webAddress = /^(https?:\/\/\S+)?$/;

const partsOf = (text: string) => text.split(',').filter((part) => part !== '');
const withoutSlash = (url: string) => url.replace(/\/+$/, '');

/** A setting that is missing or malformed; never its value. */
export type SettingProblem = { name: string; problem: string };

/** Reads one setting after the other. Not a schema: making one takes a tenth of a start. */
class SettingReader {
  readonly #vars: Readonly<Record<string, unknown>>;
  readonly #problems = new Map<string, string>();

  constructor(vars: Readonly<Record<string, unknown>>) {
    this.#vars = vars;
  }

  get problems(): SettingProblem[] {
    return [...this.#problems].map(([name, problem]) => ({ name, problem }));
  }

  /** The first problem of a setting is the one that is told. */
  refuse(name: string, problem: string): void {
    if (!this.#problems.has(name)) this.#problems.set(name, problem);
  }

  text(name: string, pattern?: RegExp, problem = ''): string {
    const value = this.#vars[name];
    if (typeof value !== 'string') this.refuse(name, value === undefined ? 'is missing' : 'is wrong: expected a text');
    else if (pattern?.test(value) === false) this.refuse(name, problem);
    return typeof value === 'string' ? value : '';
  }

  optionalText(name: string): string {
    return this.#vars[name] === undefined ? '' : this.text(name);
  }

  oneOf<const Word extends string>(name: string, words: readonly Word[]): Word {
    const word = words.find((one) => one === this.#vars[name]);
    if (word === undefined) this.refuse(name, `is one of ${words.map((one) => `"${one}"`).join(', ')}`);
    return word as Word;
  }

  isTrue(name: string): boolean {
    return this.oneOf(name, ['true', 'false']) === 'true';
  }

  number(name: string, min: number, max: number): number {
    const value = Number(this.#vars[name]);
    if (!(value >= min && value <= max)) this.refuse(name, `is a number from ${min} to ${max}`);
    return value;
  }

  integer(name: string, min: number, max: number): number {
    const value = this.number(name, min, max);
    if (!Number.isInteger(value)) this.refuse(name, `is a whole number from ${min} to ${max}`);
    return value;
  }

  /** Secrets that are live at once: two while one replaces the other. `least` is 0 of machines that a deployment may do without. */
  secrets(
    name: string,
    { least = 1, most = 2, pattern = /^.{32,}$/s, problem = 'each secret needs 32 characters' } = {},
  ): string[] {
    const secrets = partsOf(this.optionalText(name));
    if (!secrets.every((secret) => pattern.test(secret))) this.refuse(name, problem);
    if (secrets.length < least) this.refuse(name, 'is missing');
    if (secrets.length > most) this.refuse(name, `at most ${most} live at once`);
    return secrets;
  }
}

function readSettings(read: SettingReader) {
  const signingKeys = read.secrets('JWT_SECRETS', {
    pattern: /^[A-Za-z0-9_-]{1,32}:.{32,}$/,
    problem: 'has the form kid:secret, the secret 32 characters long',
  });
  const optionalSecrets = (name: string) => read.secrets(name, { least: 0 });
  const hasBroker = read.oneOf('BROKER', ['bridge', 'none']) !== 'none';
  const provisioning = read.oneOf('BROKER_PROVISIONING', ['none', 'emqx', 'mosquitto']);
  const api = {
    url: read.text('BROKER_API_URL', webAddress, "is the address of the broker's API, EMQX's without /api/v5"),
    key: read.optionalText('BROKER_API_KEY'),
    secret: read.optionalText('BROKER_API_SECRET'),
  };
  const hasApi = api.url !== '' && api.key !== '' && api.secret !== '';
  const mail = {
    url: read.text('MAIL_URL', webAddress, 'is the address that takes mails, or empty'),
    from: read.text('MAIL_FROM'),
    secret: read.optionalText('MAIL_SECRET'),
  };
  const resetUrl = read.text('PASSWORD_RESET_URL', /^(https?:\/\/\S*\{token\}\S*)?$/, 'holds {token}, or is empty');
  const corsOrigins = partsOf(
    read
      .text('CORS_ORIGINS')
      .replaceAll(/\s*,\s*/g, ',')
      .trim(),
  );
  // Browsers send an origin without a path or a slash: one with them would never match.
  if (!corsOrigins.every((origin) => /^(\*|https?:\/\/[^/\s]+)$/.test(origin))) {
    read.refuse('CORS_ORIGINS', 'has the form https://host or *');
  }
  const locationHint = read.oneOf('LOCATION_HINT', ['', ...locationHints]);
  const config = {
    signingKeys: signingKeys.map((entry) => {
      const colon = entry.indexOf(':');
      return { kid: entry.slice(0, colon), secret: entry.slice(colon + 1) };
    }),
    bridgeSecrets: optionalSecrets('BRIDGE_SECRETS'),
    /** The bridge's at the broker, where that asks here. */
    bridgeMqttPasswords: optionalSecrets('BRIDGE_MQTT_PASSWORDS'),
    /** For passwords that wait in the database to be pushed to a broker; the first seals. */
    sealingSecrets: read.secrets('SEALING_SECRETS'),
    /** For the codes in messaging passwords; the first certifies, every one verifies. */
    messagingSecrets: read.secrets('MESSAGING_SECRETS', { most: maxMessagingSecrets }),
    brokerHookSecrets: optionalSecrets('BROKER_HOOK_SECRETS'),
    /** With one of them a gateway is believed which address a device has. */
    gatewaySecrets: optionalSecrets('GATEWAY_SECRETS'),
    /** Empty: nobody may call the operator's routes. */
    operatorSecrets: optionalSecrets('OPERATOR_SECRETS'),
    /** Whether there is a broker with a bridge at all; devices may connect to the edge either way. */
    hasBroker,
    /** The connection data of activations, of the gateway where there is no broker, and what only a broker has. */
    broker: {
      host: read.text(
        'MQTT_HOST',
        /^[A-Za-z0-9.-]+$/,
        'is the bare host name or IPv4 address of the broker or gateway',
      ),
      port: read.integer('MQTT_PORT', 1, 65535),
      tlsPort: read.integer('MQTT_TLS_PORT', 1, 65535),
      keepAliveSeconds: read.integer('MQTT_KEEP_ALIVE_SECONDS', 10, 3600),
      reportsConnections: read.isTrue('BROKER_REPORTS_CONNECTIONS'),
      provisioning,
      /** EMQX's management API, or the part of it that the local broker has; undefined where there is none. */
      api: hasBroker && hasApi ? { ...api, url: withoutSlash(api.url) } : undefined,
    },
    /** undefined: no password is reset by mail. */
    mail: mail.url === '' ? undefined : mail,
    /** Of the application's page that sets a password, with `{token}` in it; undefined where there is none. */
    passwordResetUrl: resetUrl === '' ? undefined : resetUrl,
    accessTokenSeconds: read.integer('ACCESS_TOKEN_SECONDS', 60, 86_400),
    relayShards: read.integer('RELAY_SHARDS', 1, 256),
    corsOrigins,
    rateLimits: read.oneOf('RATE_LIMITS', ['production', 'relaxed']),
    limits: readLimits(read.text('LIMITS'), (problem) => read.refuse('LIMITS', problem)),
    /** Where objects are placed; undefined: near who first calls them. */
    locationHint: locationHint === '' ? undefined : locationHint,
    /** Whether the log shows how a message begins that was not understood. */
    logsRejectedText: read.isTrue('LOG_REJECTED_TEXT'),
    logInfoShare: read.number('LOG_INFO_SHARE', 0, 1),
  };
  if (provisioning === 'emqx' && !hasApi) {
    read.refuse('BROKER_PROVISIONING', 'emqx needs BROKER_API_URL, BROKER_API_KEY and BROKER_API_SECRET');
  }
  if (!hasBroker && provisioning !== 'none') {
    read.refuse('BROKER_PROVISIONING', 'has to be none where BROKER is none');
  }
  if (mail.url !== '') {
    const needed = { MAIL_FROM: mail.from, MAIL_SECRET: mail.secret, PASSWORD_RESET_URL: resetUrl };
    for (const [name, text] of Object.entries(needed)) {
      if (text === '') read.refuse(name, 'is missing where MAIL_URL is set');
    }
  }
  if (hasBroker) {
    const { bridgeSecrets, bridgeMqttPasswords, brokerHookSecrets } = config;
    if (bridgeSecrets.length === 0) read.refuse('BRIDGE_SECRETS', 'is missing');
    if (bridgeMqttPasswords.length === 0) read.refuse('BRIDGE_MQTT_PASSWORDS', 'is missing');
    if (brokerHookSecrets.length === 0) read.refuse('BROKER_HOOK_SECRETS', 'is missing');
  }
  return config;
}

export type Config = ReturnType<typeof readSettings>;

const configByEnv = new WeakMap<Env, Config>();

export class SettingsError extends Error {
  override readonly name = 'SettingsError';
  readonly problems: SettingProblem[];

  constructor(problems: SettingProblem[]) {
    super(`Worker configuration: ${problems.map(({ name, problem }) => `${name} ${problem}`).join('; ')}`);
    this.problems = problems;
  }
}

/** One for each setting that is wrong. Asks nobody, so that a deployment can be checked before it is one. */
export function findSettingProblems(vars: Record<string, unknown>): SettingProblem[] {
  const read = new SettingReader(vars);
  readSettings(read);
  return read.problems;
}

/** @throws SettingsError */
export function readConfig(env: Env): Config {
  const known = configByEnv.get(env);
  if (known !== undefined) return known;
  const read = new SettingReader(env as unknown as Record<string, unknown>);
  const config = readSettings(read);
  if (read.problems.length > 0) throw new SettingsError(read.problems);
  configByEnv.set(env, config);
  sampleInfoLines(config.logInfoShare, config.logInfoShare < 1 ? infoLinesPerSecond : Infinity);
  return config;
}
