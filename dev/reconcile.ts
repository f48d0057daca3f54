// `npm run reconcile`: has a deployment compare its device records with their sessions, slice by slice, and says what it found.
// Repairs nothing itself; docs/operations.md says what is repaired.
import { z } from 'zod';
import { reconciledSchema, reconcilePath } from '../src/protocol/bridge.ts';
import { describeFailure } from '../rig/clients/api.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { readBaseAddress } from './base-address.ts';
import { fail, print } from './terminal.ts';

const usage = `Usage: BRIDGE_SECRET=... npm run reconcile -- --url URL [--from CURSOR]

  --url           base address of the service, e.g. https://latchwork.example.workers.dev
  --from CURSOR   go on where a reconciliation was cut off; otherwise all records are compared`;

type Slice = z.infer<typeof reconciledSchema>;

const answerWithinMs = 60_000;

const { url, from, secret } = readArguments();
try {
  await compareRecords();
} catch (error) {
  fail(`${url}: ${describeFailure(error)}`);
}

async function compareRecords(): Promise<void> {
  const sum = { checked: 0, inactive: 0, deleted: 0, failed: 0 };
  for (let cursor: number | null = from; cursor !== null;) {
    const slice: Slice = await post(reconcilePath, { cursor }, reconciledSchema);
    for (const name of ['checked', 'inactive', 'deleted', 'failed'] as const) sum[name] += slice[name];
    cursor = slice.cursor;
    if (cursor !== null) print(`${sum.checked} compared; if this is cut off, go on with --from ${cursor}`);
  }
  print(`${sum.checked} compared: ${sum.inactive} have no session and are inactive until they activate again,`);
  print(`${sum.deleted} belonged to deleted devices and are deleted, ${sum.failed} could not be compared`);
  if (sum.failed > 0) process.exitCode = 1;
}

async function post<T>(path: string, body: object, schema: z.ZodType<T>): Promise<T> {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(answerWithinMs),
  });
  const { message, data } = z.object({ message: z.string(), data: schema.nullable() }).parse(await response.json());
  if (data === null) fail(`${url} answered ${response.status} ${message}`);
  return data;
}

function readArguments() {
  const options = { url: { type: 'string' }, from: { type: 'string', default: '0' } } as const;
  return readCommandLine({ name: 'npm run reconcile', usage, options }, ({ values }) => {
    const url = readBaseAddress('--url', values.url);
    const secret = process.env['BRIDGE_SECRET'];
    if (secret === undefined) throw new Error('BRIDGE_SECRET is not set');
    const from = Number(values.from);
    if (!Number.isSafeInteger(from) || from < 0) throw new Error('--from is a number that an earlier run has printed');
    return { url, from, secret };
  });
}
