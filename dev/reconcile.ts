// `npm run reconcile`: has a deployment compare its device records with their sessions, slice by slice, or the devices that a file
// names with their records, and says what it found. Mends nothing itself; docs/operations.md says what is mended.
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import {
  reconciledDevicesSchema,
  reconcileDevicesPath,
  reconciledSchema,
  reconcilePath,
} from '../src/protocol/bridge.ts';
import { describeFailure } from '../rig/clients/api.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { readBaseAddress } from './base-address.ts';
import { fail, print } from './terminal.ts';

const usage = `Usage: BRIDGE_SECRET=... npm run reconcile -- --url URL [--continue | --devices FILE]

  --url           base address of the service, e.g. https://latchwork.example.workers.dev
  --continue      go on where a reconciliation was cut off; otherwise a new one begins
  --devices FILE  the other direction: whether the devices whose ids stand in the file, in whatever form, still have their records`;

const answerWithinMs = 60_000;
const devicesAtOnce = 100;

const { url, isNew, deviceIds, secret } = readArguments();
try {
  if (deviceIds === undefined) await compareRecords();
  else await compareDevices(deviceIds);
} catch (error) {
  fail(`${url}: ${describeFailure(error)}`);
}

async function compareRecords(): Promise<void> {
  let state = await post(reconcilePath, { isNew }, reconciledSchema);
  while (state.finishedAt === null) {
    print(`${state.checked} compared`);
    state = await post(reconcilePath, { isNew: false }, reconciledSchema);
  }
  const { checked, inactive, deleted, failed } = state;
  print(`${checked} compared: ${inactive} have no session and are inactive until they activate again,`);
  print(`${deleted} belonged to deleted devices and are deleted, ${failed} could not be compared`);
  if (failed > 0) process.exitCode = 1;
}

async function compareDevices(ids: string[]): Promise<void> {
  const sum = { recorded: 0, absent: 0, failed: 0, unrecorded: 0, withoutProduct: 0 };
  for (let at = 0; at < ids.length; at += devicesAtOnce) {
    const slice = { deviceIds: ids.slice(at, at + devicesAtOnce) };
    const { unrecorded, withoutProduct, ...counts } = await post(reconcileDevicesPath, slice, reconciledDevicesSchema);
    for (const name of ['recorded', 'absent', 'failed'] as const) sum[name] += counts[name];
    sum.unrecorded += unrecorded.length;
    sum.withoutProduct += withoutProduct.length;
    for (const id of unrecorded) print(`${id} has a session and no record`);
    for (const id of withoutProduct) print(`${id} has a session, and neither its record nor its product is there`);
  }
  print(`${ids.length} compared: ${sum.recorded} have their record, ${sum.absent} have no session,`);
  print(`${sum.unrecorded} have no record and end in six hours unless it comes back,`);
  print(`${sum.withoutProduct} have no product either and stay, ${sum.failed} could not be compared`);
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
  const options = {
    url: { type: 'string' },
    continue: { type: 'boolean', default: false },
    devices: { type: 'string' },
  } as const;
  return readCommandLine({ name: 'npm run reconcile', usage, options }, ({ values }) => {
    const url = readBaseAddress('--url', values.url);
    const secret = process.env['BRIDGE_SECRET'];
    if (secret === undefined) throw new Error('BRIDGE_SECRET is not set');
    return { url, isNew: !values.continue, deviceIds: readDeviceIds(values.devices), secret };
  });
}

function readDeviceIds(file: string | undefined): string[] | undefined {
  if (file === undefined) return undefined;
  const ids = [...new Set(readFileSync(file, 'utf8').match(/\bdev_[0-9a-z]{1,32}\b/g))];
  if (ids.length === 0) throw new Error(`--devices: there is no device id in ${file}`);
  return ids;
}
