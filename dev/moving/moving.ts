// `npm run operator -- export` and `import`: a whole deployment as a file of lines. Goes on where it was cut off. Decides nothing about
// what is moved: that does the Worker.
import { appendFileSync, existsSync, readFileSync, truncateSync } from 'node:fs';
import { parseEnv } from 'node:util';
import type { z } from 'zod';
import { canonicalJson } from '../../src/domain/json.ts';
import * as protocol from '../../src/protocol/operator.ts';
import { writePrivateFile } from '../local/secrets.ts';
import { makeHeader, openHeader, readFile, sealLine } from './sealed-lines.ts';
import { print } from '../terminal.ts';

type Post = <T>(path: string, body: object, schema: z.ZodType<T>) => Promise<T>;
type Numbered = { number: number; line: protocol.MovedLine };

/** Lines of the file alone: the secrets, and the end. */
const [secretsTable, endTable] = ['secrets', 'end'];
const secretName = 'MESSAGING_SECRETS';
/** As the Worker's settings (src/config.ts). */
const maxSecrets = 8;
const sayEvery = 1_000;

/** @param secretsPath of the deployment that is exported; undefined: its secrets stay there */
export async function exportTo(post: Post, path: string, secretsPath: string | undefined): Promise<void> {
  if (!existsSync(path)) writePrivateFile(path, await makeHeader());
  const key = await openHeader(path);
  let last: protocol.MovedLine | undefined;
  let [number, endsAt] = [1, readFileSync(path).indexOf('\n') + 1];
  for await (const read of readFile(path, key)) ({ line: last, number, endsAt } = read);
  truncateSync(path, endsAt);
  const append = async (lines: readonly protocol.MovedLine[]) => {
    for (const line of lines) appendFileSync(path, await sealLine(key, ++number, line));
    if (number % sayEvery < lines.length) print(`${number} lines`);
  };
  if (last === undefined && secretsPath !== undefined)
    await append([{ in: secretsTable, at: 0, row: { [secretName]: readSecrets(secretsPath) } }]);
  else if (last !== undefined) print(`${path} has ${number} lines: the export goes on behind them.`);
  let after = last === undefined || last.in === secretsTable ? null : { in: last.in, at: last.at };
  while (after?.in !== endTable) {
    const page: protocol.Exported = await post('/export', { after }, protocol.exportedSchema);
    await append(page.lines);
    after = page.next ?? { in: endTable, at: number + 1 };
    if (page.next === null) await append([{ ...after, row: {} }]);
  }
  print(`${path} is complete: ${number} lines. With it and the passphrase anybody can be any user and any device.`);
}

/** @param from number of the first line to send. Answers how many lines were refused. */
export async function importFrom(post: Post, path: string, from: number, secretsPath?: string): Promise<number> {
  const key = await openHeader(path);
  const total = await checkFile(post, path, key, from <= 1);
  const sum: Partial<Record<string, number>> = {};
  const send = async (page: readonly Numbered[]) => {
    const { results } = await post('/import', { lines: page.map(({ line }) => line) }, protocol.importedSchema);
    for (const [index, { number, line }] of page.entries()) {
      const result = results[index] ?? '';
      sum[result] = (sum[result] ?? 0) + 1;
      if (result !== 'taken' && result !== 'there') print(`line ${number} refused: ${line.in} ${line.at}, ${result}`);
      if (number % sayEvery === 0)
        print(`${number} of ${total} lines; if this is cut off, go on with --from ${number}`);
    }
  };
  let page: Numbered[] = [];
  for await (const { number, line } of readFile(path, key)) {
    const isOther = page[0] !== undefined && page[0].line.in !== line.in;
    if (isOther || page.length === protocol.linesPerPage) await send(page.splice(0));
    if (line.in === secretsTable && secretsPath !== undefined) addSecrets(secretsPath, String(line.row[secretName]));
    if (number >= from && line.in !== secretsTable && line.in !== endTable) page.push({ number, line });
  }
  const { taken = 0, there = 0, ...others } = sum;
  const refused = Object.values(others).reduce<number>((all, count = 0) => all + count, 0);
  print(`${taken} lines taken, ${there} were there already, ${refused} refused.`);
  return refused;
}

/** Reads it to its end. Each user of the deployment has to be in it. Nothing is written before. */
async function checkFile(post: Post, path: string, key: Uint8Array, comparesUsers: boolean): Promise<number> {
  const users = new Set<string>();
  let last: Numbered | undefined;
  for await (const read of readFile(path, key)) {
    last = read;
    if (read.line.in === 'users') users.add(canonicalJson(read.line.row));
  }
  if (last?.line.in !== endTable) throw new Error(`${path} was cut off: run its export again, which goes on`);
  for (let after: protocol.MovedPlace | null = null; comparesUsers;) {
    const page: protocol.Exported = await post('/export', { after }, protocol.exportedSchema);
    const isOther = page.lines.some(({ row }) => !users.has(canonicalJson(row)));
    if (isOther) throw new Error('This deployment has users that are not in the file. Nothing was written.');
    after = page.next;
    if (after?.in !== 'users') break;
  }
  return last.number;
}

/** Devices go on with their passwords if the deployment knows these values, too. */
function addSecrets(path: string, moved: string): void {
  const own = readSecrets(path).split(',');
  const added = moved.split(',').filter((value) => !own.includes(value));
  if (own.length + added.length > maxSecrets)
    throw new Error(`${path}: ${secretName} has at most ${maxSecrets} values`);
  const values = `${secretName}=${[...own, ...added].join(',')}`;
  writePrivateFile(
    path,
    readFileSync(path, 'utf8').replace(new RegExp(`^${secretName}=.*$`, 'm'), () => values),
  );
  print(`${path} has ${added.length} more values of ${secretName}: deploy it, or restart, before devices come.`);
}

function readSecrets(path: string): string {
  const value = parseEnv(readFileSync(path, 'utf8'))[secretName] ?? '';
  if (value === '') throw new Error(`${path} has no ${secretName}`);
  return value;
}
