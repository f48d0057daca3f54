// Settings from the environment that the Node services have in common, and rules for settings, as zod schemas whose
// messages say what to do. It never repeats the value of a secret.
import { readFileSync } from 'node:fs';
import { z } from 'zod';

/** `schemes` are named in `form`, for the message. */
export const address = (about: string, form: string, schemes: string[], credentialsRemedy: string) =>
  z
    .string({ error: `is missing: set it to the ${about}` })
    .refine(
      (text) => {
        const url = URL.parse(text);
        return url !== null && schemes.includes(url.protocol) && url.hostname !== '' && url.search === '';
      },
      { error: `must be ${form} address with a host and without a query`, abort: true },
    )
    .refine((text) => {
      const url = URL.parse(text);
      return url?.username === '' && url.password === '';
    }, `must not hold a user name or a password: ${credentialsRemedy}`);

export const wholeNumber = (least: number, most: number) =>
  z
    .string()
    .refine(
      (text) => /^\d+$/.test(text) && Number(text) >= least && Number(text) <= most,
      `must be a whole number from ${least} to ${most}`,
    )
    .transform(Number);

export const oneOf = <const T extends readonly [string, ...string[]]>(values: T) =>
  z.enum(values, { error: `must be one of: ${values.join(', ')}` });

/** A service calls its secret `secretName`; the Worker takes several, and adds an S to the name. */
export const commonSettings = (secretName: string) => ({
  WORKER_URL: address(
    'base address of the Worker, such as https://api.example.com',
    'an http:// or https://',
    ['http:', 'https:'],
    `the Worker takes ${secretName}, leave them out`,
  ).transform((text) => text.replace(/\/+$/, '')),
  HEALTH_PORT: wholeNumber(0, 65_535).optional(),
  HEALTH_HOST: z.string().default('127.0.0.1'),
  LOG_LEVEL: oneOf(['debug', 'info', 'warn', 'error']).default('info'),
  LOG_FORMAT: oneOf(['json', 'pretty']).default('json'),
});

export const plaintextProblem =
  'must be https:// or mqtts://: everybody on the way could read secrets (ALLOW_PLAINTEXT=1 accepts that)';

type CommonSettings = z.infer<z.ZodObject<ReturnType<typeof commonSettings>>>;

export function toCommonConfig(env: CommonSettings) {
  return {
    health: env.HEALTH_PORT === undefined ? undefined : { host: env.HEALTH_HOST, port: env.HEALTH_PORT },
    log: { level: env.LOG_LEVEL, format: env.LOG_FORMAT },
  };
}

/** `name` is what the Worker calls it. */
export const sharedSecret = (name: string) =>
  z
    .string({ error: `is missing: set it to one of the Worker's ${name}` })
    .regex(/^[\x21-\x7e]{32,}$/, 'must have at least 32 printable characters; make one with: openssl rand -hex 32');

/** Whether what is sent to this address, secrets first of all, can be read on the way. */
export function isPlaintext(address: string): boolean {
  const url = URL.parse(address);
  if (url === null || !['http:', 'ws:', 'mqtt:'].includes(url.protocol)) return false;
  return !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
}

/** Reads the settings of the schema and their problems. A secret may come from a file, named by its variable with `_FILE`. */
export function readSettings<T>(schema: z.ZodType<T>, environment: NodeJS.ProcessEnv, secretNames: readonly string[]) {
  // Compose files and shells hand over unset variables as empty strings.
  const given: NodeJS.Dict<string> = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== ''),
  );
  const problems: string[] = [];
  for (const name of secretNames) {
    const fileName = `${name}_FILE`;
    if (given[name] !== undefined && given[fileName] !== undefined) {
      problems.push(`${name} and ${fileName} are both set: set one of them`);
    }
    const secret = readSettingFile(given, fileName, problems);
    if (secret !== undefined) given[name] = secret.toString().trim();
  }
  const { data, error } = schema.safeParse(given);
  problems.push(...(error?.issues ?? []).map(({ path, message }) => `${path.join('.')} ${message}`));
  for (const name of ['WORKER_URL', 'MQTT_URL'].filter((setting) => isPlaintext(given[setting] ?? ''))) {
    if (given['ALLOW_PLAINTEXT'] !== '1') problems.push(`${name} ${plaintextProblem}`);
  }
  return { given, data, problems };
}

/** undefined if the setting names no file, or a file that cannot be read. */
export function readSettingFile(given: NodeJS.Dict<string>, name: string, problems: string[]): Buffer | undefined {
  const path = given[name];
  if (path === undefined) return undefined;
  const explain = ({ code }: NodeJS.ErrnoException): string => `${name} cannot be read (${code ?? 'unknown'}): ${path}`;
  return attempt(problems, () => readFileSync(path), explain);
}

export function checkKeyPair(given: NodeJS.Dict<string>, names: [cert: string, key: string], problems: string[]): void {
  const missing = names.filter((name) => given[name] === undefined);
  if (missing.length === 1) problems.push(`${names.join(' and ')} belong together: set both or neither`);
}

/** Does what may fail, and adds the explanation to the problems if it does. */
export function attempt<T>(problems: string[], act: () => T, explain: (error: NodeJS.ErrnoException) => string) {
  try {
    return act();
  } catch (error) {
    problems.push(explain(error as NodeJS.ErrnoException));
    return undefined;
  }
}
