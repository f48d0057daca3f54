// The folder of STATE_DIR: made where it is missing, and refused in words where nothing can be kept in it. Knows nothing of
// what the others keep there.
import { accessSync, constants, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const reasons: Record<string, string> = {
  ENOTDIR: 'is a file, or leads through one',
  ENOENT: 'cannot be made there',
  EACCES: 'may not be written by this user',
  EPERM: 'may not be written by this user',
  EROFS: 'is on a disk that is read-only',
  ENOSPC: 'is on a disk that is full',
};

/** @throws Error in one line */
export function prepareStateDir(stateDir: string): void {
  try {
    makeFolder(stateDir);
    accessSync(join(stateDir, '.'), constants.W_OK);
    // The state folder may lie anywhere in the repository: it tells git to ignore it.
    writeFileSync(join(stateDir, '.gitignore'), '*\n');
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    throw new Error(`STATE_DIR ${stateDir} ${reasons[code] ?? message}: give a folder that can be written`, {
      cause: code,
    });
  }
}

/** With the folders above it. Node's own way of doing that never ends under /proc. */
function makeFolder(path: string): void {
  if (!existsSync(dirname(path))) makeFolder(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
