// Temporary folders of tests and tools, in one folder a process, which is removed when the process ends. A killed process
// cannot remove anything: a process of its own waits for its end (temp-dir-guard.ts).
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Names the folder of a whole run. Processes of the run put their folders there and need no guard of their own. */
export const tempRootVariable = 'LATCHWORK_TEST_ROOT';
const guardScript = fileURLToPath(new URL('temp-dir-guard.ts', import.meta.url));

let root: string | undefined;

/** Removed when this process, or the one that made `TMPDIR` its root, ends. */
export function makeTempDir(name: string): string {
  root ??= process.env[tempRootVariable] ?? makeTempRoot();
  return mkdtempSync(join(root, `${name}-`));
}

/** A new folder that becomes the temporary folder of this process and of its child processes. */
export function makeTempRoot(): string {
  const dir = mkdtempSync(join(tmpdir(), 'latchwork-'));
  process.once('exit', () => rmSync(dir, { recursive: true, force: true, maxRetries: 3 }));
  const guard = spawn(process.execPath, [guardScript, dir], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
  guard.unref();
  // Its end closes with this process.
  (guard.stdin as unknown as { unref: () => void }).unref();
  process.env['TMPDIR'] = dir;
  process.env[tempRootVariable] = dir;
  return dir;
}
