// The output of `npm start`: the lines of each part in a file of STATE_DIR/logs, and on the terminal those that a person
// should see. Starts and ends nothing.
import { createWriteStream, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { say, showTrouble, warn } from '../terminal.ts';
import type { Output } from './supervisor.ts';

export function writeLogFiles(stateDir: string, isQuiet: () => boolean): Output {
  const nameOf = (part: string) => join(stateDir, 'logs', `${part}.log`);
  return { open, say, warn, nameOf };

  function open(part: string): (line: string) => void {
    mkdirSync(join(stateDir, 'logs'), { recursive: true });
    const log = createWriteStream(nameOf(part), { flags: 'a', mode: 0o600 });
    // A disk that is full must not end the parts.
    log.on('error', (error) => warn(part, `its log is not written any more: ${error.message}`));
    return (line) => {
      log.write(`${line}\n`);
      if (!isQuiet()) showTrouble(part, line);
    };
  }
}
