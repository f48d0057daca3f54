// Removes a folder when the process that started this one is gone: its end of stdin closes then. Processes that the dead one
// started take a moment to notice and may still write, so that the folder is removed until it stays away.
import { existsSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const checkEveryMs = 500;
const quietMs = 5_000;
const patienceMs = 60_000;

const [dir = ''] = process.argv.slice(2);
for await (const chunk of process.stdin) if (chunk === '') break;

const deadlineMs = Date.now() + patienceMs;
let quietSinceMs = Date.now();
while (Date.now() < deadlineMs && Date.now() - quietSinceMs < quietMs) {
  if (existsSync(dir)) {
    quietSinceMs = Date.now();
    try {
      rmSync(dir, { recursive: true, force: true });
    } catch (error) {
      // Something was written into it meanwhile.
      if (!['ENOTEMPTY', 'EBUSY', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    }
  }
  await sleep(checkEveryMs);
}
