// Runs wrangler for the commands of this folder. Decides nothing about what it does.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { whenNpmIsGone } from './stopping.ts';

export const root = join(import.meta.dirname, '..');

/** The exit code of `wrangler <args>`, null after a signal; it has the terminal to itself, Ctrl-C included. */
export async function runWrangler(args: string[], env: Record<string, string> = {}): Promise<number | null> {
  const wrangler = join(root, 'node_modules/wrangler/bin/wrangler.js');
  const child = spawn(process.execPath, [wrangler, ...args], {
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
