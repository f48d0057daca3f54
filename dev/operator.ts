// `npm run operator` and `npm run reconcile`: what an operator does to a deployment from the terminal. Calls the Worker's routes
// slice by slice and says what came of it. Repairs nothing itself; docs/operations.md says what is repaired.
import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { z } from 'zod';
import * as protocol from '../src/protocol/operator.ts';
import { isPlaintext, plaintextProblem } from '../node-service/environment.ts';
import { readCommandLine, refuseCommandLine } from '../rig/command-line.ts';
import { readBaseAddress } from './base-address.ts';
import { exportTo, importFrom } from './moving/moving.ts';
import { fail, print } from './terminal.ts';

const usage = `Usage: OPERATOR_SECRET=... npm run operator -- --url URL COMMAND

  sign-up open|closed      let people register, or not
  reset-password NAME      a token, and a link where the deployment has a page, to set a new password with
  disable NAME             login, sessions, API keys and relay end within two seconds; all its devices are disabled
  enable NAME              the account again, and the devices that were disabled with it
  delete NAME              the account with everything that it owns and its memberships; asks first, --yes does not
  push-credentials         all devices to a broker that credentials are pushed to
  find NAME                an account, or a device by its id or serial number: whose it is, its state, its last events
  metrics                  the metrics that Prometheus reads
  export --to FILE         all accounts, products and devices, sealed with EXPORT_PASSPHRASE; again, it goes on where it was cut off
  import FILE              into this deployment, which has no other users; --from LINE goes on where it was cut off
  reconcile                compares all device records with their sessions; --from CURSOR goes on where it was cut off

  --secrets FILE           with export: the deployment's secrets.env, of which MESSAGING_SECRETS goes with the devices;
                           with import: the secrets.env that takes these values

  NAME is a username or an email. OPERATOR_SECRET is one of the Worker's OPERATOR_SECRETS.`;

const npmName = 'npm run operator';
const answerWithinMs = 120_000;

const options = {
  url: { type: 'string' },
  yes: { type: 'boolean', default: false },
  from: { type: 'string', default: '0' },
  to: { type: 'string' },
  secrets: { type: 'string' },
} as const;
const commandLine = { name: npmName, usage, options, allowPositionals: true } as const;
const { url, secret, command, argument, isSure, from, to, secretsPath } = readCommandLine(
  commandLine,
  ({ values, positionals: [command, argument] }) => {
    const url = readBaseAddress('--url', values.url);
    if (isPlaintext(url) && process.env['ALLOW_PLAINTEXT'] !== '1') throw new Error(`--url ${plaintextProblem}`);
    const secret = process.env['OPERATOR_SECRET'] ?? '';
    if (secret === '') throw new Error('OPERATOR_SECRET is not set');
    const from = Number(values.from);
    if (!Number.isSafeInteger(from) || from < 0) throw new Error('--from is a number that an earlier run has printed');
    return { url, secret, command, argument, isSure: values.yes, from, to: values.to, secretsPath: values.secrets };
  },
);
// A reader that goes early, such as `head`, must not cut the work in two.
process.stdout.on('error', () => undefined);
process.on('uncaughtException', fail);
await run();

async function run(): Promise<void> {
  if (command === 'sign-up') {
    if (argument !== 'open' && argument !== 'closed') return refuseCommandLine(npmName, 'sign-up needs open or closed');
    await post('/sign-up', { open: argument === 'open' }, z.unknown());
    print(`Sign-up is ${argument}.`);
  } else if (command === 'reset-password') {
    const reset = await post('/accounts/reset-password', { name: name() }, protocol.passwordResetSchema);
    const { token, link, expiresAt } = reset;
    print(`Good once, until ${expiresAt}: ${link ?? token}`);
    if (link === null) print(`PUT ${url}/api/v1/users/password-reset {"token":"...","newPassword":"..."}`);
  } else if (command === 'disable' || command === 'enable' || command === 'delete') {
    if (command === 'delete') await askWhetherSure();
    await runSlices(`/accounts/${command}`, { name: name() });
  } else if (command === 'push-credentials') await runSlices('/push-credentials', {});
  else if (command === 'find') await find();
  else if (command === 'metrics') print((await (await ask('GET', '/metrics')).text()).trimEnd());
  else if (command === 'export')
    await exportTo(post, to ?? refuseCommandLine(npmName, 'export needs --to'), secretsPath);
  else if (command === 'import') {
    if ((await importFrom(post, name(), from, secretsPath)) > 0) process.exitCode = 1;
  } else if (command === 'reconcile') await reconcile();
  else refuseCommandLine(npmName, command === undefined ? 'a command is needed' : `there is no command ${command}`);
}

async function runSlices(path: string, body: object): Promise<void> {
  const sum = { done: 0, failed: 0 };
  for (let cursor: number | null = 0; cursor !== null;) {
    const slice: protocol.SliceDone = await post(path, { ...body, cursor }, protocol.sliceDoneSchema);
    sum.done += slice.done;
    sum.failed += slice.failed;
    cursor = slice.cursor;
    if (cursor !== null) print(`${sum.done} devices`);
  }
  print(`Done: ${sum.done} devices, ${sum.failed} failed.`);
  if (sum.failed > 0) {
    print('Run the command again for those that failed; the log of the Worker says why.');
    process.exitCode = 1;
  }
}

async function reconcile(): Promise<void> {
  const sum = { checked: 0, inactive: 0, deleted: 0, failed: 0 };
  for (let cursor: number | null = from; cursor !== null;) {
    const slice: protocol.Reconciled = await post('/reconcile', { cursor }, protocol.reconciledSchema);
    for (const name of ['checked', 'inactive', 'deleted', 'failed'] as const) sum[name] += slice[name];
    cursor = slice.cursor;
    if (cursor !== null) print(`${sum.checked} compared; if this is cut off, go on with --from ${cursor}`);
  }
  print(`${sum.checked} compared: ${sum.inactive} have no session and are inactive until they activate again,`);
  print(`${sum.deleted} belonged to deleted devices and are deleted, ${sum.failed} could not be compared`);
  if (sum.failed > 0) process.exitCode = 1;
}

async function find(): Promise<void> {
  const shown = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
  const found = await post('/find', { name: name() }, z.array(protocol.foundSchema));
  for (const { events, ...facts } of found) {
    for (const [fact, value] of Object.entries(facts)) print(`${fact.padEnd(14)}${shown(value)}`);
    for (const event of events) print(`  ${Object.values(event).map(shown).join('  ')}`);
  }
}

async function post<T>(path: string, body: object, schema: z.ZodType<T>): Promise<T> {
  const response = await ask('POST', path, JSON.stringify(body));
  return z.object({ data: schema }).parse(await response.json()).data;
}

async function ask(method: string, path: string, body?: string): Promise<Response> {
  const response = await fetch(`${url}${protocol.operatorPath}${path}`, {
    method,
    headers: { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' },
    ...(body !== undefined && { body }),
    signal: AbortSignal.timeout(answerWithinMs),
  });
  if (response.ok) return response;
  const { message } = z.object({ message: z.string() }).parse(await response.json());
  const hint = response.status === 401 ? ': OPERATOR_SECRET is none of the OPERATOR_SECRETS of this deployment' : '';
  return fail(`${url} answered ${response.status} ${message}${hint}`);
}

function name(): string {
  return argument ?? refuseCommandLine(npmName, `${command ?? ''} needs a name`);
}

async function askWhetherSure(): Promise<void> {
  if (isSure) return;
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const question = `This deletes ${name()} with all its devices for good. Type the name again: `;
  // Without a terminal the input ends at once.
  const typed = await Promise.race([terminal.question(question), once(terminal, 'close')]);
  terminal.close();
  if (typed !== name()) fail('Nothing was deleted. Without a terminal, --yes says that you are sure.');
}
