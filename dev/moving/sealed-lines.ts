// The file of an export: lines of JSON to read, and each line whole, sealed with its number under a key that the first line has under the
// passphrase (RFC 7516, by jose). Sends nothing.
import { randomBytes } from 'node:crypto';
import { createReadStream, statSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { CompactEncrypt, compactDecrypt } from 'jose';
import { canonicalJson, isJsonObject, parseJson } from '../../src/domain/json.ts';
import type { MovedLine } from '../../src/protocol/operator.ts';

const format = 'latchwork export 1';
const minPassphrase = 12;
/** OWASP asks for 210 000 of PBKDF2 with SHA-512. */
const iterations = 300_000;
const passphraseKey = { alg: 'PBES2-HS512+A256KW', enc: 'A256GCM' };
/** Members of `row` and `record` that open something. */
const secretMembers: Partial<Record<string, readonly string[]>> = {
  secrets: ['MESSAGING_SECRETS'],
  users: ['password_hash', 'webhookSecrets'],
  devices: ['claim_code_digest', 'credentials'],
  api_keys: ['secret_hash'],
};

export async function makeHeader(): Promise<string> {
  const sealing = new CompactEncrypt(randomBytes(32)).setProtectedHeader(passphraseKey);
  const key = await sealing.setKeyManagementParameters({ p2c: iterations }).encrypt(readPassphrase());
  return `${JSON.stringify({ format, key })}\n`;
}

/** The key of the file. @throws Error for another file, or another passphrase */
export async function openHeader(path: string): Promise<Uint8Array> {
  for await (const { text } of readLines(path)) {
    const header = parseJson(text);
    if (!isJsonObject(header) || header['format'] !== format || typeof header['key'] !== 'string') break;
    const options = { keyManagementAlgorithms: [passphraseKey.alg], maxPBES2Count: iterations };
    const opened = compactDecrypt(header['key'], readPassphrase(), options);
    const refuse = () => Promise.reject(new Error(`EXPORT_PASSPHRASE is not the passphrase of ${path}`));
    return (await opened.catch(refuse)).plaintext;
  }
  throw new Error(`${path} does not begin with ${format}`);
}

function readPassphrase(): Uint8Array {
  const passphrase = process.env['EXPORT_PASSPHRASE'] ?? '';
  if (passphrase.length < minPassphrase) throw new Error(`EXPORT_PASSPHRASE needs ${minPassphrase} characters`);
  return new TextEncoder().encode(passphrase);
}

/** @param number of the line in the file, from 1 */
export async function sealLine(key: Uint8Array, number: number, line: MovedLine): Promise<string> {
  const sealing = new CompactEncrypt(new TextEncoder().encode(JSON.stringify(line)));
  const sealed = await sealing.setProtectedHeader({ alg: 'dir', enc: 'A256GCM', line: number }).encrypt(key);
  return `${JSON.stringify({ ...readable(line), sealed })}\n`;
}

/** Without what opens something. */
function readable({ row, record, ...place }: MovedLine) {
  const isKept = ([name]: [string, unknown]) => secretMembers[place.in]?.includes(name) !== true;
  const part = (of: object) => Object.fromEntries(Object.entries(of).filter(isKept));
  return { ...place, row: part(row), ...(record && { record: part(record) }) };
}

/** The lines behind the first. `endsAt`: in bytes. Ends at a line that was cut off. @throws Error for a changed line */
export async function* readFile(path: string, key: Uint8Array) {
  for await (const { text, number, endsAt } of readLines(path)) {
    if (number > 1) yield { number, endsAt, line: await openLine(key, number, text) };
  }
}

async function openLine(key: Uint8Array, number: number, text: string): Promise<MovedLine> {
  const fail = (why: unknown) => Promise.reject(new Error(`line ${number} is not as exported: ${String(why)}`));
  const { sealed = '', ...shown } = (parseJson(text) ?? {}) as { sealed?: string };
  const opened = await compactDecrypt(sealed, key, { keyManagementAlgorithms: ['dir'] }).catch(fail);
  const line = JSON.parse(new TextDecoder().decode(opened.plaintext)) as MovedLine;
  const isSame = opened.protectedHeader['line'] === number && canonicalJson(readable(line)) === canonicalJson(shown);
  return isSame ? line : fail('its number, or what can be read');
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
