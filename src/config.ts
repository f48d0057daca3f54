// Vars and secrets of the Worker, read once an isolate into a checked Config. Nothing else reads a var from `env`.
// A missing or short secret fails every request with its name in the log; secrets have no default.
import { z } from 'zod';
import { readVapidKeys } from './crypto/web-push.ts';
import { readLimits } from './limits.ts';
import { sampleInfoLines } from './log.ts';

/** By isolate, unless the operator wants every line: a flood of requests must not become a flood of log lines. */
const infoLinesPerSecond = 100;

/** More than two: devices keep their passwords for as long as they live. */
const maxMessagingSecrets = 8;

const webAddress = /^(https?:\/\/\S+)?$/;
const pageWithToken = /^(https?:\/\/\S*\{token\}\S*)?$/;

const partsOf = (text: string) => text.split(',').filter((part) => part !== '');

/** A setting that is missing or malformed; never its value. */
export type SettingProblem = { name: string; problem: string };

const text = z.string({ error: ({ input }) => (input === undefined ? 'is missing' : 'is wrong: expected a text') });
const optionalText = text.default('');

const choice = <const Word extends string>(words: readonly Word[]) =>
  z.enum(words, { error: `is one of ${words.map((word) => `"${word}"`).join(', ')}` });

const shareProblem = { error: 'is a number from 0 to 1' };

const yesOrNo = choice(['true', 'false']).transform((word) => word === 'true');

function integer(min: number, max: number) {
  const error = `is a whole number from ${min} to ${max}`;
  return z.coerce.number({ error }).int({ error }).min(min, { error }).max(max, { error });
}

/** Secrets that are live at once: two while one replaces the other. */
function secrets({ least = 1, most = 2, pattern = /^.{32,}$/s, problem = 'each secret needs 32 characters' } = {}) {
  const each = z.string().regex(pattern, { error: problem });
  const list = z
    .array(each)
    .min(least, { error: 'is missing' })
    .max(most, { error: `at most ${most} live at once` });
  return optionalText.transform(partsOf).pipe(list);
}

const machineSecrets = secrets({ least: 0 });

const settingsSchema = z.object({
  JWT_SECRETS: secrets({
    pattern: /^[A-Za-z0-9_-]{1,32}:.{32,}$/,
    problem: 'has the form kid:secret, the secret 32 characters long',
  }),
  SEALING_SECRETS: secrets(),
  MESSAGING_SECRETS: secrets({ most: maxMessagingSecrets }),
  BRIDGE_SECRETS: machineSecrets,
  BRIDGE_MQTT_PASSWORDS: machineSecrets,
  BROKER_HOOK_SECRETS: machineSecrets,
  GATEWAY_SECRETS: machineSecrets,
  OPERATOR_SECRETS: machineSecrets,
  VAPID_KEY: optionalText.refine((key) => key === '' || readVapidKeys(key, '') !== undefined, {
    error: 'is a private key of P-256: 43 characters of base64url',
  }),
  BROKER: choice(['bridge', 'none']),
  MQTT_HOST: text.regex(/^[A-Za-z0-9.-]+$/, {
    error: 'is the bare host name or IPv4 address of the broker or gateway',
  }),
  MQTT_PORT: integer(1, 65_535),
  MQTT_TLS_PORT: integer(1, 65_535),
  MQTT_KEEP_ALIVE_SECONDS: integer(10, 3_600),
  BROKER_REPORTS_CONNECTIONS: yesOrNo,
  BROKER_PROVISIONING: choice(['none', 'mosquitto']),
  BROKER_API_URL: text.regex(webAddress, { error: "is the address of the broker's API, EMQX's without /api/v5" }),
  BROKER_API_KEY: optionalText,
  BROKER_API_SECRET: optionalText,
  MAIL_URL: text.regex(webAddress, { error: 'is the address that takes mails, or empty' }),
  MAIL_FROM: text,
  MAIL_SECRET: optionalText,
  PASSWORD_RESET_URL: text.regex(pageWithToken, { error: 'holds {token}, or is empty' }),
  EMAIL_VERIFICATION_URL: text.regex(pageWithToken, { error: 'holds {token}, or is empty' }),
  ACCESS_TOKEN_SECONDS: integer(60, 86_400),
  RELAY_SHARDS: integer(1, 256),
  // Browsers send an origin without a path or a slash: an origin with them would never match.
  CORS_ORIGINS: text
    .transform((list) => partsOf(list.replaceAll(/\s*,\s*/g, ',').trim()))
    .pipe(z.array(z.string().regex(/^(\*|https?:\/\/[^/\s]+)$/, { error: 'has the form https://host or *' }))),
  RATE_LIMITS: choice(['production', 'relaxed']),
  LIMITS: text.transform((list, context) => readLimits(list, (problem) => context.addIssue(problem))),
  LOCATION_HINT: choice(['', 'wnam', 'enam', 'sam', 'weur', 'eeur', 'apac', 'apac-ne', 'apac-se', 'oc', 'afr', 'me']),
  WEBHOOKS_MAY_BE_LOCAL: yesOrNo,
  LOG_REJECTED_TEXT: yesOrNo,
  LOG_INFO_SHARE: z.coerce.number(shareProblem).min(0, shareProblem).max(1, shareProblem),
});

type Vars = Readonly<Record<string, unknown>>;

/** Settings that follow from others. */
function findContradictions(vars: Vars): SettingProblem[] {
  const problems: SettingProblem[] = [];
  const isEmpty = (name: string): boolean => (vars[name] ?? '') === '';
  const need = (problem: string, ...names: string[]): void => {
    for (const name of names.filter(isEmpty)) problems.push({ name, problem });
  };
  if (vars['BROKER'] === 'bridge') need('is missing', 'BRIDGE_SECRETS', 'BRIDGE_MQTT_PASSWORDS', 'BROKER_HOOK_SECRETS');
  if (vars['BROKER'] === 'none' && vars['BROKER_PROVISIONING'] !== 'none') {
    problems.push({ name: 'BROKER_PROVISIONING', problem: 'has to be none if BROKER is none' });
  }
  const mailNames = ['MAIL_FROM', 'MAIL_SECRET', 'PASSWORD_RESET_URL', 'EMAIL_VERIFICATION_URL'];
  if (!isEmpty('MAIL_URL')) need('is missing, but MAIL_URL is set', ...mailNames);
  return problems;
}

function toConfig(settings: z.output<typeof settingsSchema>) {
  const { BROKER_API_URL: apiUrl, BROKER_API_KEY: key, BROKER_API_SECRET: apiSecret, MAIL_URL: mailUrl } = settings;
  const hasBroker = settings.BROKER !== 'none';
  const [mailbox] = /[^<>\s]+@[^<>\s]+/.exec(settings.MAIL_FROM) ?? [];
  const contact = mailbox === undefined ? `https://${settings.MQTT_HOST}` : `mailto:${mailbox}`;
  const hasApi = apiUrl !== '' && key !== '' && apiSecret !== '';
  return {
    signingKeys: settings.JWT_SECRETS.map((entry) => {
      const colon = entry.indexOf(':');
      return { kid: entry.slice(0, colon), secret: entry.slice(colon + 1) };
    }),
    bridgeSecrets: settings.BRIDGE_SECRETS,
    bridgeMqttPasswords: settings.BRIDGE_MQTT_PASSWORDS,
    /** For passwords in the outbox. The first seals, every one opens. */
    sealingSecrets: settings.SEALING_SECRETS,
    /** For the codes in messaging passwords. The first certifies, every one verifies. */
    messagingSecrets: settings.MESSAGING_SECRETS,
    brokerHookSecrets: settings.BROKER_HOOK_SECRETS,
    /** A gateway with one of them is believed which address a device has. */
    gatewaySecrets: settings.GATEWAY_SECRETS,
    /** Empty: nobody may call the operator's routes. */
    operatorSecrets: settings.OPERATOR_SECRETS,
    /** Whether there is a broker with a bridge; devices may connect to the Worker itself either way. */
    hasBroker,
    /** The connection data of activations (of the gateway if there is no broker), and settings that only a broker has. */
    broker: {
      host: settings.MQTT_HOST,
      port: settings.MQTT_PORT,
      tlsPort: settings.MQTT_TLS_PORT,
      keepAliveSeconds: settings.MQTT_KEEP_ALIVE_SECONDS,
      reportsConnections: settings.BROKER_REPORTS_CONNECTIONS,
      provisioning: settings.BROKER_PROVISIONING,
      /** EMQX's management API, or the part of it that the local broker has. */
      api: hasBroker && hasApi ? { url: apiUrl.replace(/\/+$/, ''), key, secret: apiSecret } : undefined,
    },
    /** undefined: no password is reset by mail, and every e-mail counts as verified. */
    mail: mailUrl === '' ? undefined : { url: mailUrl, from: settings.MAIL_FROM, secret: settings.MAIL_SECRET },
    /** The application's pages that confirm an e-mail and set a password, with `{token}` in them. */
    emailVerificationUrl: settings.EMAIL_VERIFICATION_URL,
    passwordResetUrl: settings.PASSWORD_RESET_URL === '' ? undefined : settings.PASSWORD_RESET_URL,
    /** undefined: notices are not pushed. Push services reach the operator at the sender of mails, or at the devices' host. */
    vapid: readVapidKeys(settings.VAPID_KEY, contact),
    accessTokenSeconds: settings.ACCESS_TOKEN_SECONDS,
    relayShards: settings.RELAY_SHARDS,
    corsOrigins: settings.CORS_ORIGINS,
    rateLimits: settings.RATE_LIMITS,
    limits: settings.LIMITS,
    /** The region for objects; undefined: near their first caller. */
    locationHint: settings.LOCATION_HINT === '' ? undefined : settings.LOCATION_HINT,
    /** Whether webhooks may have any HTTP address. */
    webhooksMayBeLocal: settings.WEBHOOKS_MAY_BE_LOCAL,
    /** Whether the log shows how a message begins that was not understood. */
    logsRejectedText: settings.LOG_REJECTED_TEXT,
    logInfoShare: settings.LOG_INFO_SHARE,
  };
}

export type Config = ReturnType<typeof toConfig>;

const configByEnv = new WeakMap<Env, Config>();

export class SettingsError extends Error {
  override readonly name = 'SettingsError';
  readonly problems: SettingProblem[];

  constructor(problems: SettingProblem[]) {
    super(`Worker configuration: ${problems.map(({ name, problem }) => `${name} ${problem}`).join('; ')}`);
    this.problems = problems;
  }
}

function parseSettings(vars: Vars): { config: Config | undefined; problems: SettingProblem[] } {
  const { success, data, error } = settingsSchema.safeParse(vars);
  const issues = error?.issues.map(({ path, message }) => ({ name: String(path[0]), problem: message })) ?? [];
  const byName = new Map<string, SettingProblem>();
  for (const problem of [...issues, ...findContradictions(vars)]) {
    if (!byName.has(problem.name)) byName.set(problem.name, problem);
  }
  return { config: success ? toConfig(data) : undefined, problems: [...byName.values()] };
}

/** The first problem of each setting that is wrong. Asks nobody: a deployment can be checked before it is made. */
export function findSettingProblems(vars: Record<string, unknown>): SettingProblem[] {
  return parseSettings(vars).problems;
}

/** @throws SettingsError */
export function readConfig(env: Env): Config {
  const earlier = configByEnv.get(env);
  if (earlier !== undefined) return earlier;
  const { config, problems } = parseSettings(env as unknown as Vars);
  if (config === undefined || problems.length > 0) throw new SettingsError(problems);
  configByEnv.set(env, config);
  sampleInfoLines(config.logInfoShare, config.logInfoShare < 1 ? infoLinesPerSecond : Infinity);
  return config;
}
