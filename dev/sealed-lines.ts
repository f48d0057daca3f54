// The file of an export: lines of JSON, of which a passphrase seals the secrets and guards the rest. The first line has a random key
// under the passphrase, each other line is bound to its number and to its text (RFC 7516, by jose). Sends nothing.
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, statSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { CompactEncrypt, compactDecrypt } from 'jose';
import { z } from 'zod';
import { parseJson } from '../src/domain/json.ts';
import type { MovedLine, MovedTable } from '../src/protocol/operator.ts';

const format = 'latchwork export 1';
const minPassphrase = 12;
/** OWASP 2023 for PBKDF2 with SHA-512 is 210 000. */
const iterations = 300_000;
const isSecret: Partial<Record<MovedTable, readonly string[]>> = {
  users: ['password_hash', 'webhookSecrets'],
  devices: ['claim_code_digest', 'credentials'],
  api_keys: ['secret_hash'],
};

export type FileLine = MovedLine | { end: number };

const headerSchema = z.object({ format: z.literal(format), key: z.string(), secrets: z.string().nullable() });

export function readPassphrase(): Uint8Array {
  const passphrase = process.env['EXPORT_PASSPHRASE'] ?? '';
  if (passphrase.length < minPassphrase) throw new Error(`EXPORT_PASSPHRASE needs ${minPassphrase} characters`);
  return new TextEncoder().encode(passphrase);
}

export async function makeHeader(passphrase: Uint8Array, secrets: string | undefined): Promise<string> {
  const key = randomBytes(32);
  const sealedKey = await new CompactEncrypt(key)
    .setProtectedHeader({ alg: 'PBES2-HS512+A256KW', enc: 'A256GCM' })
    .setKeyManagementParameters({ p2c: iterations })
    .encrypt(passphrase);
  const sealed = secrets === undefined ? null : await seal(key, { line: 1 }, secrets);
  return `${JSON.stringify({ format, key: sealedKey, secrets: sealed })}\n`;
}

/** @throws Error for another passphrase */
async function openHeader(text: string, passphrase: Uint8Array) {
  const header = headerSchema.safeParse(parseJson(text));
  if (!header.success) throw new Error(`the file does not begin as an export of this version does`);
  const { key, secrets } = header.data;
  const options = { keyManagementAlgorithms: ['PBES2-HS512+A256KW'], maxPBES2Count: iterations };
  const opened = await compactDecrypt(key, passphrase, options).catch(() => {
    throw new Error('EXPORT_PASSPHRASE is not the passphrase of this file');
  });
  const moved = secrets === null ? undefined : await open(opened.plaintext, { line: 1 }, secrets);
  return { key: opened.plaintext, secrets: moved as string | undefined };
}

/** @param number of the line in the file, from 1 */
export async function sealLine(key: Uint8Array, number: number, line: FileLine): Promise<string> {
  const plain: Record<string, unknown> = { ...line };
  const sealed: Record<string, unknown> = {};
  if ('in' in line) {
    for (const part of ['row', 'record'] as const) {
      if (line[part] === undefined) continue;
      const members = Object.entries(line[part]);
      const isOf = (name: string) => isSecret[line.in]?.includes(name) === true;
      plain[part] = Object.fromEntries(members.filter(([name]) => !isOf(name)));
      sealed[part] = Object.fromEntries(members.filter(([name]) => isOf(name)));
    }
  }
  return `${JSON.stringify({ ...plain, sealed: await seal(key, boundTo(number, plain), sealed) })}\n`;
}

/** @throws Error for a line that was changed, or stands at another place */
async function openLine(key: Uint8Array, number: number, text: string): Promise<FileLine> {
  try {
    const { sealed, ...plain } = JSON.parse(text) as Record<string, object> & { sealed: string };
    const parts = (await open(key, boundTo(number, plain), sealed)) as Record<string, object>;
    const whole = Object.entries(parts).map(([part, members]) => [part, { ...plain[part], ...members }]);
    return { ...plain, ...Object.fromEntries(whole) } as FileLine;
  } catch {
    throw new Error(`line ${number} is not as the export wrote it`);
  }
}

/** The key and the secrets of the first line. @throws Error for another file, or another passphrase */
export async function readHeader(path: string, passphrase: Uint8Array) {
  for await (const { text } of readLines(path)) return openHeader(text, passphrase);
  throw new Error(`${path} is empty`);
}

/** The lines behind the first. `endsAt`: in bytes. Ends at a line that was cut off. */
export async function* readFile(path: string, key: Uint8Array) {
  for await (const { text, ...place } of readLines(path)) {
    if (place.number > 1) yield { ...place, line: await openLine(key, place.number, text) };
  }
}

async function* readLines(path: string) {
  const { size } = statSync(path);
  let [number, endsAt] = [0, 0];
  for await (const text of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    endsAt += Buffer.byteLength(text) + 1;
    if (endsAt > size) return;
    yield { number: ++number, endsAt, text };
  }
}

type Bound = { line: number; digest?: string };

function boundTo(line: number, plain: object): Bound {
  return { line, digest: createHash('sha256').update(JSON.stringify(plain)).digest('base64url') };
}

function seal(key: Uint8Array, bound: Bound, content: unknown): Promise<string> {
  const header = { alg: 'dir', enc: 'A256GCM', ...bound };
  return new CompactEncrypt(new TextEncoder().encode(JSON.stringify(content))).setProtectedHeader(header).encrypt(key);
}

async function open(key: Uint8Array, { line, digest }: Bound, sealed: string): Promise<unknown> {
  const options = { keyManagementAlgorithms: ['dir'], contentEncryptionAlgorithms: ['A256GCM'] };
  const { plaintext, protectedHeader } = await compactDecrypt(sealed, key, options);
  if (protectedHeader['line'] !== line || protectedHeader['digest'] !== digest) throw new TypeError('moved or changed');
  return JSON.parse(new TextDecoder().decode(plaintext)) as unknown;
}
