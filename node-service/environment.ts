// Rules for settings from the environment that the Node services have in common, as zod schemas whose messages say what
// to do. Reads no setting by itself, and never repeats the value of a secret.
import { readFileSync } from 'node:fs';
import { z } from 'zod';

/** `schemes` are named in `form`, for the message. */
export const address = (about: string, form: string, schemes: string[], credentialsRemedy: string) =>
  z
    .string({ error: `is missing: set it to the ${about}` })
    .refine(isUrlOf(schemes), { error: `must be ${form} address with a host and without a query`, abort: true })
    .refine(hasNoCredentials, `must not hold a user name or a password: ${credentialsRemedy}`);

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

/** `name` is what the Worker calls it. */
export const sharedSecret = (name: string) =>
  z
    .string({ error: `is missing: set it to one of the Worker's ${name}` })
    .regex(/^[\x21-\x7e]{32,}$/, 'must have at least 32 printable characters; make one with: openssl rand -hex 32');

/** Compose files and shells hand over unset variables as empty strings. */
export function withoutEmpty(environment: NodeJS.ProcessEnv): Partial<Record<string, string>> {
  return Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
}

/** Puts in the secrets that come from a file, named by the same variable with `_FILE`: containers are given them so. */
export function addSecretsFromFiles(
  given: Partial<Record<string, string>>,
  names: readonly string[],
  problems: string[],
): void {
  for (const name of names) {
    const path = given[`${name}_FILE`];
    if (path === undefined) continue;
    if (given[name] !== undefined) problems.push(`${name} and ${name}_FILE are both set: set one of them`);
    attempt(
      problems,
      () => (given[name] = readFileSync(path, 'utf8').trim()),
      ({ code }) => `${name}_FILE cannot be read (${code ?? 'unknown'}): ${path}`,
    );
  }
}

/** Does what may fail, and adds the explanation to the problems where it does. */
export function attempt(
  problems: string[],
  act: () => unknown,
  explain: (error: NodeJS.ErrnoException) => string,
): void {
  try {
    act();
  } catch (error) {
    problems.push(explain(error as NodeJS.ErrnoException));
  }
}

function isUrlOf(protocols: string[]): (text: string) => boolean {
  return (text) => {
    const url = URL.parse(text);
    return url !== null && protocols.includes(url.protocol) && url.hostname !== '' && url.search === '';
  };
}

function hasNoCredentials(text: string): boolean {
  const url = URL.parse(text);
  return url?.username === '' && url.password === '';
}
