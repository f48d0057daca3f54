// The output of a server: one JSON object a line on stdout, for journald or a container's log. Lines of parts get the name of their
// part. Keeps nothing.
import { createJsonLog } from '../rig/worker/part-process.ts';
import type { Output } from '../dev/local/supervisor.ts';
import { isJsonObject, parseJson } from '../src/domain/json.ts';

export const log = createJsonLog('server');

export const logLines: Output = {
  open: (part) => (line) => {
    const parsed = parseJson(line);
    // Node and workerd print text if they fail.
    const fields = isJsonObject(parsed) ? parsed : { time: new Date().toISOString(), level: 'error', message: line };
    process.stdout.write(`${JSON.stringify({ part, ...fields })}\n`);
  },
  say: (name, message) => log('info', 'part', { name, message }),
  warn: (name, message) => log('warn', 'part', { name, message }),
  nameOf: (part) => `the lines of the part ${part}`,
};
