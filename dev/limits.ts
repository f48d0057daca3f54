// `npm run limits`: writes the tables of docs/limits.md from the comments of src/limits.ts and wrangler.toml. Decides no limit.
import { readFileSync, writeFileSync } from 'node:fs';
import { readCommandLine } from '../rig/command-line.ts';
import { limitSpecs } from '../src/limits.ts';

const pagePath = new URL('../docs/limits.md', import.meta.url);

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');

/** The page as it is, and with the tables that the sources give. */
export function renderLimitsPage(): { page: string; rendered: string } {
  const page = readFileSync(pagePath, 'utf8');
  const rendered = withTable(withTable(page, 'limits', limitsTable()), 'rate limits', rateLimitsTable());
  return { page, rendered };
}

function withTable(page: string, name: string, table: string): string {
  const [start, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`];
  const [before, rest] = page.split(start);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined) throw new Error(`docs/limits.md lacks ${start} and ${end}`);
  return `${before}${start}\n\n<!-- prettier-ignore -->\n${table}\n${end}${after}`;
}

function limitsTable(): string {
  const comments = [...read('../src/limits.ts').matchAll(/^ {2}\/\*\* (.+)\. Beyond: (.+)\. \*\/\n {2}(\w+):/gm)];
  const rows = Object.entries(limitSpecs).map(([name, spec]) => {
    const [, counts = '', beyond = ''] = comments.find((match) => match[3] === name) ?? [];
    const [value, min, max] = [spec.default, spec.min, spec.max].map((number) => number.toLocaleString('en'));
    return `| \`${name}\` | ${value} (${min} to ${max}) | ${counts} | ${beyond} |\n`;
  });
  return `| Limit | Default | Counts | Beyond it |\n| --- | --- | --- | --- |\n${rows.join('')}`;
}

function rateLimitsTable(): string {
  const pattern = /^# (.+)\.\n\[\[ratelimits\]\]\nname = "(\w+)"\n.*\nsimple = \{ limit = (\d+), period = (\d+) \}$/gm;
  const rows = [...read('../wrangler.toml').matchAll(pattern)].map(
    ([, counts = '', name = '', limit, period]) => `| \`${name}\` | ${limit} in ${period} s | ${counts} |\n`,
  );
  return `| Limiter | Limit | Counts |\n| --- | --- | --- |\n${rows.join('')}`;
}

if (import.meta.main) {
  const usage = 'Usage: npm run limits\n\n  Writes the tables of docs/limits.md.';
  readCommandLine({ name: 'npm run limits', usage, options: {} }, () => undefined);
  writeFileSync(pagePath, renderLimitsPage().rendered);
}
