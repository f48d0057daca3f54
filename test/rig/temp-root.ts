// Gives a test run a folder of its own for temporary files and removes it at the end: the processes of test files are
// killed and cannot.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { tempRootVariable } from './ports.ts';

export default function useTempRoot(): () => void {
  const former = process.env['TMPDIR'];
  const root = mkdtempSync(join(tmpdir(), 'latchwork-tests-'));
  process.env['TMPDIR'] = root;
  process.env[tempRootVariable] = root;
  return () => {
    Reflect.deleteProperty(process.env, tempRootVariable);
    if (former === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = former;
    rmSync(root, { recursive: true, force: true, maxRetries: 3 });
  };
}
