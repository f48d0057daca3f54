// `npm run reconcile`: has a deployment compare all its device records with their sessions, slice by slice, and says what it
// found. Mends nothing itself; docs/restore.md says what is mended.
import { z } from 'zod';
import { reconciledSchema, reconcilePath } from '../src/protocol/bridge.ts';
import { readCommandLine } from '../test/rig/command-line.ts';
import { readBaseAddress } from './base-address.ts';
import { fail, print } from './terminal.ts';

const usage = `Usage: BRIDGE_SECRET=... npm run reconcile -- --url URL

  --url       base address of the service, e.g. https://latchwork.example.workers.dev
  --continue  go on where a reconciliation was cut off; otherwise a new one begins`;

const answerSchema = z.object({ message: z.string(), data: reconciledSchema.nullable() });
const answerWithinMs = 60_000;

const { url, isNew, secret } = readArguments();
let state = await compareSlice(isNew);
while (state.finishedAt === null) {
  print(`${state.checked} compared`);
  state = await compareSlice(false);
}
const { checked, inactive, deleted, failed } = state;
print(`${checked} compared: ${inactive} have no session and are inactive until they activate again,`);
print(`${deleted} belonged to deleted devices and are deleted, ${failed} could not be compared`);
if (failed > 0) process.exitCode = 1;

async function compareSlice(isNewOne: boolean): Promise<z.infer<typeof reconciledSchema>> {
  const response = await fetch(`${url}${reconcilePath}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ isNew: isNewOne }),
    signal: AbortSignal.timeout(answerWithinMs),
  });
  const { message, data } = answerSchema.parse(await response.json());
  if (data === null) fail(`${url} answered ${response.status} ${message}`);
  return data;
}

function readArguments() {
  const options = { url: { type: 'string' }, continue: { type: 'boolean', default: false } } as const;
  return readCommandLine({ name: 'npm run reconcile', usage, options }, ({ values }) => {
    const url = readBaseAddress('--url', values.url);
    const secret = process.env['BRIDGE_SECRET'];
    if (secret === undefined) throw new Error('BRIDGE_SECRET is not set');
    return { url, isNew: !values.continue, secret };
  });
}
