// Vars and secrets of the Worker, read once an isolate into a checked Config. Nothing else reads a var from `env`.
// A missing or short secret fails every request with its name in the log, and /health names it; secrets have no default.
import { z } from 'zod';
import { limitsSchema } from './limits.ts';
import { sampleInfoLines } from './log.ts';
import { maxBridgeShares } from './protocol/bridge.ts';

const partsOf = (text: string) => text.split(',').filter((part) => part !== '');

/** Secrets that are live at once: two while one replaces the other. */
const liveSecretsSchema = (secretSchema: z.ZodType<string, string>, { least = 1, most = 2 } = {}) =>
  z
    .string()
    .default('')
    .transform(partsOf)
    .pipe(z.array(secretSchema).min(least, 'is missing').max(most, `at most ${most} live at once`));

const secretSchema = z.string().min(32, 'each secret needs 32 characters');
const secretListSchema = liveSecretsSchema(secretSchema);
/** Of machines that a deployment may do without. */
const optionalSecretListSchema = liveSecretsSchema(secretSchema, { least: 0 });

/** More than two: devices keep their passwords for as long as they live. */
const maxMessagingSecrets = 8;

const signingKeysSchema = liveSecretsSchema(
  z.string().regex(/^[A-Za-z0-9_-]{1,32}:.{32,}$/, 'has the form kid:secret, the secret 32 characters long'),
).transform((entries) =>
  entries.map((entry) => {
    const colon = entry.indexOf(':');
    return { kid: entry.slice(0, colon), secret: entry.slice(colon + 1) };
  }),
);

const integerSchema = (min: number, max: number) => z.coerce.number().pipe(z.int().min(min).max(max));

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

const originListSchema = z
  .string()
  .transform((text) => partsOf(text.replaceAll(/\s*,\s*/g, ',').trim()))
  // Browsers send an origin without a path or a slash: one with them would never match.
  .pipe(z.array(z.string().regex(/^(\*|https?:\/\/[^/\s]+)$/, 'has the form https://host or *')));

type BrokerApiVars = Record<'BROKER_API_URL' | 'BROKER_API_KEY' | 'BROKER_API_SECRET', string>;

const hasBrokerApi = (vars: BrokerApiVars) =>
  vars.BROKER_API_URL !== '' && vars.BROKER_API_KEY !== '' && vars.BROKER_API_SECRET !== '';

const hivemqClusterPattern = /^https:\/\/[^/\s]+\/(?:[^/\s]+\/)*orgs\/[^/\s]+\/clusters\/[^/\s]+\/?$/;

const hasHivemqApi = (vars: BrokerApiVars) =>
  hivemqClusterPattern.test(vars.BROKER_API_URL) && vars.BROKER_API_SECRET !== '';

const withoutSlash = (url: string) => url.replace(/\/+$/, '');

const configSchema = z
  .object({
    JWT_SECRETS: signingKeysSchema,
    BRIDGE_SECRETS: optionalSecretListSchema,
    BRIDGE_MQTT_PASSWORDS: optionalSecretListSchema,
    SEALING_SECRETS: secretListSchema,
    MESSAGING_SECRETS: liveSecretsSchema(secretSchema, { most: maxMessagingSecrets }),
    BROKER_HOOK_SECRETS: optionalSecretListSchema,
    GATEWAY_SECRETS: optionalSecretListSchema,
    OPERATOR_SECRETS: optionalSecretListSchema,
    BROKER: z.enum(['bridge', 'none']),
    MQTT_HOST: z.string().regex(/^[A-Za-z0-9.-]+$/, 'is the bare host name or IPv4 address of the broker or gateway'),
    MQTT_PORT: integerSchema(1, 65535),
    MQTT_TLS_PORT: integerSchema(1, 65535),
    MQTT_KEEP_ALIVE_SECONDS: integerSchema(10, 3600),
    BROKER_PROVISIONING: z.enum(['none', 'emqx', 'hivemq', 'mosquitto']),
    BROKER_API_URL: z
      .string()
      .regex(/^(https?:\/\/\S+)?$/, "is the address of the broker's API, EMQX's without /api/v5"),
    BROKER_API_KEY: z.string().default(''),
    BROKER_API_SECRET: z.string().default(''),
    BROKER_REPORTS_CONNECTIONS: z.enum(['true', 'false']).transform((text) => text === 'true'),
    ACCESS_TOKEN_SECONDS: integerSchema(60, 86_400),
    RELAY_SHARDS: integerSchema(1, 256),
    BRIDGE_SHARES: integerSchema(1, maxBridgeShares),
    CORS_ORIGINS: originListSchema,
    RATE_LIMITS: z.enum(['production', 'relaxed']),
    LIMITS: limitsSchema,
    LOCATION_HINT: z.enum(['', ...locationHints]),
    MAIL_URL: z.string().regex(/^(https?:\/\/\S+)?$/, 'is the address that takes mails, or empty'),
    MAIL_FROM: z.string(),
    MAIL_SECRET: z.string().default(''),
    PASSWORD_RESET_URL: z.string().regex(/^(https?:\/\/\S*\{token\}\S*)?$/, 'holds {token}, or is empty'),
    LOG_REJECTED_TEXT: z.enum(['true', 'false']).transform((text) => text === 'true'),
    LOG_INFO_SHARE: z.coerce.number().pipe(z.number().min(0).max(1)),
  })
  .refine((vars) => vars.BROKER_PROVISIONING !== 'emqx' || hasBrokerApi(vars), {
    path: ['BROKER_PROVISIONING'],
    message: 'emqx needs BROKER_API_URL, BROKER_API_KEY and BROKER_API_SECRET',
  })
  .refine((vars) => vars.BROKER_PROVISIONING !== 'hivemq' || hasHivemqApi(vars), {
    path: ['BROKER_PROVISIONING'],
    message: 'hivemq needs BROKER_API_URL (https://.../orgs/{orgId}/clusters/{clusterId}) and BROKER_API_SECRET',
  })
  .refine((vars) => vars.BROKER !== 'none' || vars.BROKER_PROVISIONING === 'none', {
    path: ['BROKER_PROVISIONING'],
    message: 'has to be none where BROKER is none',
  })
  .superRefine((vars, context) => {
    if (vars.MAIL_URL === '') return;
    for (const name of ['MAIL_FROM', 'MAIL_SECRET', 'PASSWORD_RESET_URL'] as const) {
      if (vars[name] === '')
        context.addIssue({ code: 'custom', path: [name], message: 'is missing where MAIL_URL is set' });
    }
  })
  .superRefine((vars, context) => {
    if (vars.BROKER === 'none') return;
    for (const name of ['BRIDGE_SECRETS', 'BRIDGE_MQTT_PASSWORDS', 'BROKER_HOOK_SECRETS'] as const) {
      if (vars[name].length === 0) context.addIssue({ code: 'custom', path: [name], message: 'is missing' });
    }
  })
  .transform((vars) => ({
    signingKeys: vars.JWT_SECRETS,
    bridgeSecrets: vars.BRIDGE_SECRETS,
    /** The bridge's at the broker, where that asks here. */
    bridgeMqttPasswords: vars.BRIDGE_MQTT_PASSWORDS,
    /** For passwords that wait in the database to be pushed to a broker; the first seals. */
    sealingSecrets: vars.SEALING_SECRETS,
    /** For the codes in messaging passwords; the first certifies, every one verifies. */
    messagingSecrets: vars.MESSAGING_SECRETS,
    brokerHookSecrets: vars.BROKER_HOOK_SECRETS,
    /** With one of them a gateway is believed which address a device has. */
    gatewaySecrets: vars.GATEWAY_SECRETS,
    /** Empty: nobody may call the operator's routes. */
    operatorSecrets: vars.OPERATOR_SECRETS,
    /** Whether there is a broker with a bridge at all; devices may connect to the edge either way. */
    hasBroker: vars.BROKER !== 'none',
    /** The connection data of activations, of the gateway where there is no broker, and what only a broker has. */
    broker: {
      host: vars.MQTT_HOST,
      port: vars.MQTT_PORT,
      tlsPort: vars.MQTT_TLS_PORT,
      keepAliveSeconds: vars.MQTT_KEEP_ALIVE_SECONDS,
      reportsConnections: vars.BROKER_REPORTS_CONNECTIONS,
      provisioning: vars.BROKER_PROVISIONING,
      /** EMQX's management API, or the part of it that the local broker has; undefined where there is none. */
      api:
        vars.BROKER !== 'none' && vars.BROKER_PROVISIONING !== 'hivemq' && hasBrokerApi(vars)
          ? { url: withoutSlash(vars.BROKER_API_URL), key: vars.BROKER_API_KEY, secret: vars.BROKER_API_SECRET }
          : undefined,
      /** HiveMQ Cloud's REST API, from its host down to the cluster. */
      hivemqApi:
        vars.BROKER_PROVISIONING === 'hivemq'
          ? { url: withoutSlash(vars.BROKER_API_URL), token: vars.BROKER_API_SECRET }
          : undefined,
    },
    /** undefined: no password is reset by mail. */
    mail: vars.MAIL_URL === '' ? undefined : { url: vars.MAIL_URL, from: vars.MAIL_FROM, secret: vars.MAIL_SECRET },
    /** Of the application's page that sets a password, with `{token}` in it; undefined where there is none. */
    passwordResetUrl: vars.PASSWORD_RESET_URL === '' ? undefined : vars.PASSWORD_RESET_URL,
    accessTokenSeconds: vars.ACCESS_TOKEN_SECONDS,
    relayShards: vars.RELAY_SHARDS,
    /** How many bridges may be active at once, each for its share of the products. */
    bridgeShares: vars.BRIDGE_SHARES,
    corsOrigins: vars.CORS_ORIGINS,
    rateLimits: vars.RATE_LIMITS,
    limits: vars.LIMITS,
    /** Where objects are placed; undefined: near who first calls them. */
    locationHint: vars.LOCATION_HINT === '' ? undefined : vars.LOCATION_HINT,
    /** Whether the log shows how a message begins that was not understood. */
    logsRejectedText: vars.LOG_REJECTED_TEXT,
    logInfoShare: vars.LOG_INFO_SHARE,
  }));

export type Config = z.output<typeof configSchema>;

const configByEnv = new WeakMap<Env, Config>();

/** A setting that is missing or malformed; never its value. */
export type SettingProblem = { name: string; problem: string };

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
  const parsed = configSchema.safeParse(vars);
  return parsed.success ? [] : describeIssues(parsed.error.issues);
}

/** @throws SettingsError */
export function readConfig(env: Env): Config {
  const known = configByEnv.get(env);
  if (known !== undefined) return known;
  const parsed = configSchema.safeParse(env);
  if (!parsed.success) throw new SettingsError(describeIssues(parsed.error.issues));
  configByEnv.set(env, parsed.data);
  sampleInfoLines(parsed.data.logInfoShare);
  return parsed.data;
}

function describeIssues(issues: { path: PropertyKey[]; message: string }[]): SettingProblem[] {
  const problems = new Map<string, string>();
  for (const { path, message } of issues) {
    const name = String(path[0] ?? '');
    if (!problems.has(name)) problems.set(name, message.replace(/^Invalid input: /, 'is wrong: '));
  }
  return [...problems].map(([name, problem]) => ({ name, problem }));
}
