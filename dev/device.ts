// `npm run device`: virtual devices against any deployment, one line of progress. Needs the product to exist; makes
// no accounts and sends no commands.
import PQueue from 'p-queue';
import { readCommandLine } from '../rig/command-line.ts';
import { readBaseAddress } from './base-address.ts';
import { whenToldToStop } from './stopping.ts';
import { fail } from './terminal.ts';
import { updateFaults, type UpdateFault } from '../console/src/switch/updates.ts';
import { createVirtualDevice, type OnDeviceEvent } from './virtual-device.ts';

const usage = `Usage: npm run device -- --api URL --product KEY [--count N] [--direct] [--serial PREFIX] [--ota]

  --api       base address of the service, e.g. http://127.0.0.1:8787
  --product   product key the devices activate against
  --count     how many devices (1)
  --direct    connect over WebSocket to the service itself, not to the address that the activation names
  --serial    serial numbers are PREFIX-1, PREFIX-2, ... (VIRTUAL): the same prefix gives the same devices again
  --ota       take firmware updates; --ota=FAULT, once: cut:BYTE (power cut at that byte), flip (one bit of the image),
              old (the old version comes back), away (nothing comes back)`;

/** Activations under way at once, as many boards as one access point brings up together. */
const maxParallelStarts = 20;
const progressEveryMs = process.stdout.isTTY ? 500 : 5_000;

const options = {
  api: { type: 'string' },
  product: { type: 'string' },
  count: { type: 'string', default: '1' },
  direct: { type: 'boolean', default: false },
  serial: { type: 'string', default: 'VIRTUAL' },
  ota: { type: 'string' },
} as const;
/** The fault of `--ota` is optional, which an option with a value has no word for. */
const args = process.argv.slice(2).map((word) => (word === '--ota' ? '--ota=none' : word));
const { count, serial, ...common } = readCommandLine({ name: 'npm run device', usage, args, options }, ({ values }) => {
  const { product: productKey, direct: isDirect, serial } = values;
  const apiUrl = readBaseAddress('--api', values.api);
  if (productKey === undefined) throw new Error('--product needs a product key');
  const count = Number(values.count);
  if (!Number.isInteger(count) || count < 1) throw new Error('--count needs a whole number from 1');
  const ota = values.ota === undefined ? undefined : readFault(values.ota);
  return { apiUrl, productKey, count, isDirect, serial, ota };
});

function readFault(text: string): UpdateFault {
  const [word, byte] = text.split(':');
  const name = updateFaults.find((fault) => fault === word);
  if (name === undefined || Number.isNaN(Number(byte ?? 0))) throw new Error('--ota takes cut:BYTE, flip, old or away');
  return { name, ...(byte !== undefined && { cutAt: Number(byte) }) };
}

const tally = { activated: 0, failed: 0, online: 0, offline: 0, unreachable: 0, reported: 0, commanded: 0, replied: 0 };
let lastProblem = '';
let lastLine = '';

const onEvent: OnDeviceEvent = (event, text) => {
  tally[event] += 1;
  if (event === 'failed' || event === 'unreachable') lastProblem = text;
};
const devices = Array.from({ length: count }, (_, index) =>
  createVirtualDevice({ ...common, serial: `${serial}-${index + 1}`, onEvent }),
);

function showProgress(): void {
  const { activated, online, offline, reported, commanded, failed, unreachable } = tally;
  const problem = lastProblem === '' ? '' : `, ${failed + unreachable} failures (${lastProblem})`;
  const present = `${activated}/${count} activated, ${online - offline} online`;
  const line = `${present}, ${reported} reports, ${commanded} commands${problem}`;
  if (line === lastLine) return;
  lastLine = line;
  process.stdout.write(process.stdout.isTTY ? `\r\x1b[K${line}` : `${line}\n`);
}

const timer = setInterval(showProgress, progressEveryMs);
let isStopping = false;

function stop(): void {
  if (isStopping) process.exit(1);
  isStopping = true;
  clearInterval(timer);
  showProgress();
  if (process.stdout.isTTY) process.stdout.write('\n');
  setTimeout(() => process.exit(0), 2_000);
  Promise.all(devices.map((device) => device.stop())).then(() => process.exit(0), fail);
}

whenToldToStop(stop);
const starts = new PQueue({ concurrency: maxParallelStarts });
starts.addAll(devices.map((device) => device.start)).catch((error: unknown) => {
  if (!isStopping) fail(error);
});
