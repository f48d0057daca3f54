// The example configurations in broker-bridge/examples, so that what an operator copies is what is run here.
import { readFileSync } from 'node:fs';

/**
 * An example with its own values replaced.
 * @throws Error if a value to be replaced does not occur
 */
export function readExample(path: string, replacements: Record<string, string> = {}): string {
  let text = readFileSync(new URL(`../../broker-bridge/examples/${path}`, import.meta.url), 'utf8');
  for (const [example, value] of Object.entries(replacements)) {
    if (!text.includes(example)) throw new Error(`examples/${path}: "${example}" does not occur`);
    text = text.replaceAll(example, value);
  }
  return text;
}
