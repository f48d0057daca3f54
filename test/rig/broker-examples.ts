// The example configurations of broker-bridge/BROKERS.md, so that what is printed there is what is run here.
import { readFileSync } from 'node:fs';

const guide = readFileSync(new URL('../../broker-bridge/BROKERS.md', import.meta.url), 'utf8');

/**
 * The `index`-th block in `language` of a section, with the example's own values replaced.
 * @throws Error where there is none, or where a value to be replaced does not occur
 */
export function readExample(
  section: string,
  language: string,
  index: number,
  replacements: Record<string, string>,
): string {
  const body = guide.split(/^##+ /m).find((part) => part.startsWith(`${section}\n`)) ?? '';
  const blocks = [...body.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))];
  let text = blocks[index]?.[1];
  if (text === undefined) throw new Error(`BROKERS.md has no such block: ${section}, ${language} ${index}`);
  for (const [example, value] of Object.entries(replacements)) {
    if (!text.includes(example)) throw new Error(`BROKERS.md, ${section}: "${example}" does not occur`);
    text = text.replaceAll(example, value);
  }
  return text;
}
