// Copies of this program as releases side by side, with the packages and the build of this one. Starts nothing.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Returns its command. @param migrations more of them: SQL by the name of the file */
export function copyProgram(folder: string, version: string, migrations: Record<string, string> = {}): string {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' });
  const files = listed.split('\n').filter((file) => !/^(test|bench|docs)\//.test(file) && existsSync(join(root, file)));
  // The build last: it counts only if it is newer than the sources.
  for (const file of [...files.filter((name) => name !== ''), 'dist/worker']) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(root, file), join(folder, file), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const packageFile = join(folder, 'package.json');
  const text = readFileSync(packageFile, 'utf8').replace(/"version": "[^"]+"/, `"version": "${version}"`);
  writeFileSync(packageFile, text);
  for (const [name, sql] of Object.entries(migrations)) writeFileSync(join(folder, 'migrations', name), sql);
  return join(folder, 'serve/main.ts');
}
