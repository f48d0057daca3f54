// Gives a test run a folder of its own for temporary files, removed at its end or after it was killed. The processes of
// test files are killed and cannot remove it.
import { rmSync } from 'node:fs';
import { makeTempRoot, tempRootVariable } from './temp-dirs.ts';

export default function useTempRoot(): () => void {
  // Runs once for each project of the run.
  if (process.env[tempRootVariable] !== undefined) return () => undefined;
  const former = process.env['TMPDIR'];
  const root = makeTempRoot();
  return () => {
    Reflect.deleteProperty(process.env, tempRootVariable);
    if (former === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = former;
    rmSync(root, { recursive: true, force: true, maxRetries: 3 });
  };
}
