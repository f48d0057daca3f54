// Keeps what the parts print in STATE_DIR/logs/<part>.log. Never shows anything; terminal.ts does.
import { appendFileSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';

const maxBytes = 10 * 1024 * 1024;

export function openLogFile(stateDir: string, part: string): (line: string) => void {
  const dir = join(stateDir, 'logs');
  mkdirSync(dir, { recursive: true });
  const path = join(dir, `${part}.log`);
  let size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  return (line) => {
    if (size > maxBytes) {
      renameSync(path, `${path}.1`);
      size = 0;
    }
    // Synchronous, so that the last lines of a part that died are in the file.
    appendFileSync(path, `${line}\n`, { mode: 0o600 });
    size += line.length + 1;
  };
}
