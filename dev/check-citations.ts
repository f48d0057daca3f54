// Fails on a citation or link that does not resolve. Citations are `contract 4.3 rule 2`, `decision: control` and `field
// note 39`. Links are those of markdown, paths into docs/, and paths between backticks in markdown. Run by `npm run check`.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const matchesOf = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map(([, found = '']) => found);

/** `4.3` and, for a numbered rule of that section, `4.3 rule 2`. */
const sections: string[] = [];
const [, ...parts] = read('docs/contract.md').split(/^#{2,3} (?=\d)/m);
for (const part of parts) {
  const number = /^\d+(?:\.\d+)?/.exec(part)?.[0] ?? '';
  sections.push(number, ...matchesOf(part, /^(\d+)\. /gm).map((rule) => `${number} rule ${rule}`));
}
const decisions = matchesOf(read('docs/decisions.md'), /^## (\w+)$/gm).map((heading) => heading.toLowerCase());
const fieldNotes = matchesOf(read('docs/field-notes.md'), /^(\d+)\. /gm);

// A citation may continue on the next line of a comment.
const gap = String.raw`(?:\s|//|\*|#)+`;
const joint = /,| and| to|-/;
const listOf = (item: string): string => String.raw`(${item}(?:(?:${joint.source})(?:${gap})?${item})*)`;
const sectionItem = String.raw`(?:\d+\.\d+|\d\b)(?:${gap}rule${gap}\d+)?`;
const citations: [form: string, known: string[], problem: string][] = [
  [`[Cc]ontract${gap}${listOf(sectionItem)}`, sections, 'no such section or rule in docs/contract.md'],
  [`[Ff]ield${gap}notes?${gap}${listOf(String.raw`\d+\b`)}`, fieldNotes, 'no such number in docs/field-notes.md'],
  [`decision:${gap}([a-z]+)`, decisions, 'no such heading in docs/decisions.md'],
];

/** Makes the anchors of headings as GitHub does. */
function anchorsOf(path: string): string[] {
  const headings = matchesOf(read(path).toLowerCase(), /^#+ (.+)$/gm);
  return headings.map((heading) => heading.replace(/[^\w\s-]/g, '').replace(/\s/g, '-'));
}

function isLinkGood(from: string, link: string): boolean {
  if (/^[a-z]+:/i.test(link)) return true;
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? from : join(dirname(from), decodeURIComponent(file));
  if (!existsSync(join(root, target))) return false;
  return anchor === undefined || !target.endsWith('.md') || anchorsOf(target).includes(anchor);
}

const problems: string[] = [];
const patterns = ['*.ts', '*.js', '*.md', '*.toml', '*.sql'];
const tracked = execFileSync('git', ['ls-files', ...patterns], { cwd: root, encoding: 'utf8' })
  .trim()
  .split('\n');
// This file holds the forms it looks for; a file that is tracked and deleted holds nothing.
const paths = tracked.filter((path) => path !== 'dev/check-citations.ts' && existsSync(join(root, path)));
for (const path of paths) {
  const text = read(path);
  const check = (pattern: RegExp, what: string, isGood: (cited: string) => boolean): void => {
    for (const { 0: found, 1: cited = '', index } of text.matchAll(pattern)) {
      if (isGood(cited)) continue;
      const line = text.slice(0, index).split('\n').length;
      problems.push(`${path}:${line}: ${found.replace(/\s+/g, ' ')}: ${what}`);
    }
  };
  for (const [form, known, problem] of citations) {
    const isKnown = (item: string) => known.includes(item.replace(/[\s/*#]+/g, ' ').trim());
    check(new RegExp(String.raw`\b${form}`, 'g'), problem, (cited) => cited.split(joint).every(isKnown));
  }
  check(/(?<![\w./-])(docs\/[\w./-]*\w)/g, 'no such path', (cited) => existsSync(join(root, cited)));
  if (!path.endsWith('.md')) continue;
  check(/\]\(<?([^)\s>]+)>?\)/g, 'no such file or heading', (cited) => isLinkGood(path, cited));
  check(
    /`((?:src|broker-bridge|mqtt-gateway|node-service|console|dev|rig|test|bench|migrations|public|examples)\/[\w./-]*\w)`/g,
    'no such path',
    (cited) => existsSync(join(root, cited)),
  );
}

for (const problem of problems) console.error(problem);
if (problems.length > 0) console.error(`${problems.length} citations or links do not resolve`);
process.exitCode = problems.length > 0 ? 1 : 0;
