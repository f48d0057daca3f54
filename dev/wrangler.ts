// Runs wrangler for the commands of this folder. Decides nothing about what it does.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { promisify, stripVTControlCharacters } from 'node:util';
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

/** What `wrangler <args>` prints. It asks nobody. @throws Error with all that it printed, if it fails */
export async function askWrangler(args: string[]): Promise<string> {
  const quiet = { CI: 'true', WRANGLER_SEND_METRICS: 'false', WRANGLER_HIDE_BANNER: 'true' };
  const options = { cwd: root, maxBuffer: 2 ** 26, env: { ...process.env, ...quiet } };
  const running = promisify(execFile)(process.execPath, [script, ...args], options);
  const { stdout } = await running.catch(({ stdout, stderr }: { stdout: string; stderr: string }) => {
    throw new Error(stripVTControlCharacters(stderr.trim() || stdout));
  });
  return stdout;
}
