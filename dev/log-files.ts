// Keeps what the parts print in STATE_DIR/logs/<part>.log. Never shows anything; terminal.ts does.
import { appendFileSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';

const maxBytes = 10 * 1024 * 1024;

export type LogFile = (line: string) => void;

export function openLogFile(stateDir: string, part: string): LogFile {
  const dir = join(stateDir, 'logs');
  mkdirSync(dir, { recursive: true });
  const path = join(dir, `${part}.log`);
  let size = sizeOf(path);
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

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
