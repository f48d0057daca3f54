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
const sections = new Set<string>();
const [, ...parts] = read('docs/contract.md').split(/^#{2,3} (?=\d)/m);
for (const part of parts) {
  const number = /^\d+(?:\.\d+)?/.exec(part)?.[0] ?? '';
  sections.add(number);
  for (const rule of matchesOf(part, /^(\d+)\. /gm)) sections.add(`${number} rule ${rule}`);
}
const decisions = matchesOf(read('docs/decisions.md'), /^## (\w+)$/gm).map((heading) => heading.toLowerCase());
const fieldNotes = new Set(matchesOf(read('docs/field-notes.md'), /^(\d+)\. /gm).map(Number));

// A citation may continue on the next line of a comment.
const gap = String.raw`(?:\s|//|\*|#)+`;
const joint = String.raw`(?:,| and| to|-)${gap}?`;
const section = String.raw`\d+(?:\.\d+)?(?:${gap}rules?${gap}\d+)?`;
const noteList = String.raw`\d+(?:(?:${joint})\d+\b)*`;
const citations = new RegExp(
  String.raw`\bcontract${gap}(${section}(?:(?:${joint})(?:\d+\.\d+|\d\b)(?:${gap}rule${gap}\d+)?)*)`,
  'gi',
);
const decisionCitations = new RegExp(String.raw`\bdecision:${gap}([a-z]+)`, 'g');
const noteCitations = new RegExp(String.raw`\bfield${gap}notes?${gap}(${noteList}|[A-F]\b)`, 'gi');
function isSectionKnown(cited: string): boolean {
  const parts = cited
    .replace(/[\s/*#]+/g, ' ')
    .replaceAll('rules', 'rule')
    .split(/,| and| to|-/);
  return parts.every((part) => sections.has(part.trim()));
}

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
  check(citations, 'no such section or rule in docs/contract.md', isSectionKnown);
  check(noteCitations, 'no such number in docs/field-notes.md', (cited) =>
    cited.split(/\D+/).every((number) => fieldNotes.has(Number(number))),
  );
  check(decisionCitations, 'no such heading in docs/decisions.md', (cited) => decisions.includes(cited));
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
