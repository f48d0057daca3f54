// Runs wrangler for the commands of this folder. Decides nothing about what it does.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { whenNpmIsGone } from './stopping.ts';

export const root = join(import.meta.dirname, '..');
const script = join(root, 'node_modules/wrangler/bin/wrangler.js');

/** The exit code of `wrangler <args>`, null after a signal; it has the terminal to itself, Ctrl-C included. */
export async function runWrangler(args: string[], env: Record<string, string> = {}): Promise<number | null> {
  const child = spawn(process.execPath, [script, ...args], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, WRANGLER_SEND_METRICS: 'false', ...env },
  });
  process.once('SIGTERM', () => child.kill('SIGTERM'));
  whenNpmIsGone(() => child.kill('SIGTERM'));
  // The terminal sends Ctrl-C to wrangler too; this process ends after it.
  process.once('SIGINT', () => undefined);
  const [exitCode] = (await once(child, 'exit')) as [number | null];
  return exitCode;
}

/** What `wrangler <args>` printed. It asks nobody. */
export function askWrangler(args: string[]): { isDone: boolean; text: string } {
  const env = { ...process.env, CI: 'true', WRANGLER_SEND_METRICS: 'false', WRANGLER_HIDE_BANNER: 'true' };
  const ended = spawnSync(process.execPath, [script, ...args], { cwd: root, env, encoding: 'utf8' });
  const isDone = ended.status === 0;
  return { isDone, text: isDone ? ended.stdout : stripVTControlCharacters(ended.stderr.trim() || ended.stdout) };
}
