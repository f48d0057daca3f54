// `npm run operator -- export` and `import`: a whole deployment as a file of lines, which docs/operations.md describes. Goes on where
// it was cut off. Decides nothing about what is moved: that does the Worker.
import { appendFileSync, existsSync, readFileSync, truncateSync } from 'node:fs';
import { parseEnv } from 'node:util';
import type { z } from 'zod';
import * as protocol from '../src/protocol/operator.ts';
import { writePrivateFile } from './local/secrets.ts';
import { makeHeader, readFile, readHeader, readPassphrase, sealLine, type FileLine } from './sealed-lines.ts';
import { print } from './terminal.ts';

type Post = <T>(path: string, body: object, schema: z.ZodType<T>) => Promise<T>;
type Numbered = { number: number; line: protocol.MovedLine };

const secretName = 'MESSAGING_SECRETS';
/** As the Worker's settings (src/config.ts). */
const maxSecrets = 8;
const sayEveryMs = 2_000;

/** @param secretsPath of the deployment that is exported; undefined: its secrets stay there */
export async function exportTo(post: Post, path: string, secretsPath: string | undefined): Promise<void> {
  const passphrase = readPassphrase();
  if (!existsSync(path)) {
    writePrivateFile(
      path,
      await makeHeader(passphrase, secretsPath === undefined ? undefined : readSecrets(secretsPath)),
    );
  }
  const { key } = await readHeader(path, passphrase);
  let last: FileLine | undefined;
  let [number, endsAt] = [1, readFileSync(path).indexOf('\n') + 1];
  for await (const read of readFile(path, key)) ({ line: last, number, endsAt } = read);
  if (last !== undefined && 'end' in last) return print(`${path} is complete: ${number} lines.`);
  // A line may have been cut off.
  truncateSync(path, endsAt);
  if (last !== undefined) print(`${path} has ${number} lines; the export goes on.`);
  let after = last === undefined ? null : { in: last.in, at: last.at };
  const say = progress();
  for (;;) {
    const page: z.infer<typeof protocol.exportedSchema> = await post('/export', { after }, protocol.exportedSchema);
    const lines: FileLine[] =
      page.next === null ? [...page.lines, { end: number + page.lines.length + 1 }] : page.lines;
    let text = '';
    for (const line of lines) text += await sealLine(key, ++number, line);
    appendFileSync(path, text);
    if (page.next === null) break;
    after = page.next;
    say(`${number} lines`);
  }
  print(`${path} is complete: ${number} lines. Who has it and the passphrase can be every user.`);
}

/** @param from number of the first line to send; what is there already changes nothing. */
export async function importFrom(
  post: Post,
  path: string,
  { from, secretsPath }: { from: number; secretsPath: string | undefined },
): Promise<boolean> {
  const { key, secrets } = await readHeader(path, readPassphrase());
  const total = await checkFile(post, path, key, from <= 1);
  if (secretsPath !== undefined) addSecrets(secretsPath, secrets);
  const sum = { taken: 0, there: 0, refused: 0 };
  const say = progress();
  for await (const page of pagesOf(path, key, (_, number) => number >= from)) {
    const imported = await send(post, page, false);
    sum.taken += imported.taken;
    sum.there += imported.there;
    sum.refused += imported.refused.length;
    const reached = page.at(-1)?.number ?? 0;
    say(`${reached} of ${total} lines; if this is cut off, go on with --from ${reached + 1}`);
  }
  print(`${sum.taken} lines taken, ${sum.there} were there already, ${sum.refused} refused.`);
  return sum.refused === 0;
}

/** Reads it to its end, and compares its users with those of the deployment. Nothing is written before. */
async function checkFile(post: Post, path: string, key: Uint8Array, comparesUsers: boolean): Promise<number> {
  let total = 0;
  for await (const { number, line } of readFile(path, key)) {
    if ('end' in line && line.end === number) total = number;
  }
  if (total === 0) throw new Error(`${path} has no end: the export was cut off. Run it again: it goes on`);
  if (!comparesUsers) return total;
  let [known, users] = [0, 0];
  for await (const page of pagesOf(path, key, (line) => line.in === 'users')) {
    const compared = await send(post, page, true);
    const other = compared.refused.find(({ problem }) => problem === 'differs');
    if (other !== undefined)
      throw new Error('This deployment has other users under the same numbers. Nothing was written.');
    known += compared.there;
    ({ users } = compared);
  }
  if (users > known) throw new Error('This deployment has users that are not in the file. Nothing was written.');
  return total;
}

async function* pagesOf(
  path: string,
  key: Uint8Array,
  isWanted: (line: protocol.MovedLine, number: number) => boolean,
) {
  let page: Numbered[] = [];
  for await (const { number, line } of readFile(path, key)) {
    if ('end' in line || !isWanted(line, number)) continue;
    page.push({ number, line });
    if (page.length < protocol.linesPerPage) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

async function send(post: Post, page: readonly Numbered[], isTrial: boolean): Promise<protocol.Imported> {
  const imported = await post('/import', { isTrial, lines: page.map(({ line }) => line) }, protocol.importedSchema);
  for (const { index, problem } of isTrial ? [] : imported.refused) {
    const { number, line } = page[index] ?? {};
    print(
      `line ${number} refused, ${problem}: ${line?.in} ${JSON.stringify(Object.values(line?.row ?? {}).slice(0, 2))}`,
    );
  }
  return imported;
}

/** Devices go on with their passwords if the deployment knows these values, too. */
function addSecrets(path: string, moved: string | undefined): void {
  if (moved === undefined) throw new Error('the export has no secrets: export with --secrets FILE');
  const own = readSecrets(path).split(',');
  const added = moved.split(',').filter((value) => !own.includes(value));
  if (own.length + added.length > maxSecrets)
    throw new Error(`${path}: ${secretName} holds at most ${maxSecrets} values`);
  const line = new RegExp(`^${secretName}=.*$`, 'm');
  const text = readFileSync(path, 'utf8').replace(line, () => `${secretName}=${[...own, ...added].join(',')}`);
  if (added.length > 0) writePrivateFile(path, text);
  print(`${path} has ${added.length} more values of ${secretName}: deploy or restart before the devices come.`);
}

function readSecrets(path: string): string {
  const value = parseEnv(readFileSync(path, 'utf8'))[secretName] ?? '';
  if (value === '') throw new Error(`${path} has no ${secretName}`);
  return value;
}

function progress(): (text: string) => void {
  let saidAtMs = Date.now();
  return (text) => {
    if (Date.now() - saidAtMs < sayEveryMs) return;
    saidAtMs = Date.now();
    print(text);
  };
}
