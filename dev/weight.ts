// `npm run weight`: what a reader has to carry, counted from the files that git has, against its bounds. Changes nothing.
// Who adds a feature raises, in the commit that needs it, the bound on product source by its budget, that on tests by as many lines and
// those for its pages of the console, and that on documents by the words of its page.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { readCommandLine } from '../rig/command-line.ts';
import { limitSpecs } from '../src/limits.ts';

const usage = `Usage: npm run weight

  Counts lines, words, limits and folders against their bounds. Changes nothing.`;

readCommandLine({ name: 'npm run weight', usage, options: {} }, () => undefined);

const bounds = {
  'product source, lines': 38_930,
  'tests, rig and benchmarks, lines': 54_570,
  'Matter bridge, lines': 600,
  'documents, words': 32_850,
  'settable limits': 40,
  'files in the largest folder': 20,
  'folders at the top': 16,
  'patched libraries': 0,
};

const files = execFileSync('git', ['ls-files'], { encoding: 'utf8' }).trim().split('\n');
const isCode = (file: string) => /\.(ts|tsx|js|mjs|cjs|css|html|c|h)$/.test(file) && !file.startsWith('migrations/');
const isTest = (file: string) => /^(test|rig|bench)\/|^[\w-]+\/test\//.test(file);
/** What runs in production and `npm start`: pages, the client package, examples and settings of tools are none, nor is what is generated. */
const isProduct = (file: string) =>
  /^(src|broker-bridge|mqtt-gateway|node-service|dev|serve)\//.test(file) && file !== 'src/worker-env.d.ts';

const isMatterBridge = (file: string) => /^matter-bridge\/(?!test\/)/.test(file);

const read = (file: string) => readFileSync(file, 'utf8');
const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);
const lines = (counted: string[]) => sum(counted.map((file) => read(file).split('\n').length - 1));
const words = (counted: string[]) => sum(counted.map((file) => read(file).split(/\s+/).filter(Boolean).length));

const code = files.filter(isCode);
const scripts = files.filter((file) => /\.(ts|tsx|js|mjs)$/.test(file));
const folders = [...Map.groupBy(scripts, (file) => dirname(file))];
const [folder, { length: size }] = folders.reduce((most, next) => (next[1].length > most[1].length ? next : most));
const weights: Record<keyof typeof bounds, number> = {
  'product source, lines': lines(code.filter(isProduct)),
  'tests, rig and benchmarks, lines': lines(code.filter(isTest)),
  'Matter bridge, lines': lines(code.filter(isMatterBridge)),
  'documents, words': words(files.filter((file) => file.endsWith('.md'))),
  'settable limits': Object.keys(limitSpecs).length,
  'files in the largest folder': size,
  'folders at the top': new Set(files.flatMap((file) => /^(?!\.)([^/]+)\//.exec(file)?.[1] ?? [])).size,
  'patched libraries': files.filter((file) => /^patches\/|\.patch$/.test(file)).length,
};

for (const [name, bound] of Object.entries(bounds) as [keyof typeof bounds, number][]) {
  const weight = weights[name];
  const place = name === 'files in the largest folder' ? ` (${folder})` : '';
  const verdict = weight > bound ? '  TOO MUCH' : '';
  console.log(`${String(weight).padStart(7)} of ${String(bound).padStart(6)}  ${name}${place}${verdict}`);
  if (weight > bound) process.exitCode = 1;
}
