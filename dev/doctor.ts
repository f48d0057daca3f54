// `npm run doctor`: looks at a deployment from outside, as applications and devices meet it, and says for each fault
// what to do. Changes nothing, and needs no account.
import { lookup } from 'node:dns/promises';
import { styleText } from 'node:util';
import { connectAsync } from 'mqtt';
import { describeFailure } from '../rig/clients/api.ts';
import { RelayClient } from '../rig/clients/relay-client.ts';
import { isPlaintext } from '../node-service/environment.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { operatorPath } from '../src/protocol/operator.ts';
import { readBaseAddress } from './base-address.ts';
import { print } from './terminal.ts';

const usage = `Usage: npm run doctor -- --url URL [--broker mqtts://HOST:PORT]

  --url     base address of the service
  --broker  the address that devices get, with the scheme: whether it is reachable and refuses strangers

  With OPERATOR_SECRET in the environment its use is checked, too, and a missing part is named.`;

const answerWithinMs = 10_000;
const stranger = { username: 'doctor&dev_00000000', password: 'no-password-of-anybody' };

const options = { url: { type: 'string' }, broker: { type: 'string' } } as const;
const { url, broker } = readCommandLine({ name: 'npm run doctor', usage, options }, ({ values }) => {
  if (values.broker !== undefined && !/^(mqtts?|wss?):\/\//.test(values.broker))
    throw new Error('--broker needs mqtts://HOST:PORT');
  return { ...values, url: readBaseAddress('--url', values.url) };
});
const isReadable = isPlaintext(url) && process.env['ALLOW_PLAINTEXT'] !== '1';
const operatorSecret = isReadable ? undefined : process.env['OPERATOR_SECRET'];
const bearer: Record<string, string> =
  operatorSecret === undefined ? {} : { Authorization: `Bearer ${operatorSecret}` };
/** A check throws the fault, with what to do after the colon. */
const checks: Record<string, () => Promise<string>> = {
  async address() {
    const { hostname, protocol } = new URL(url);
    const address = await lookup(hostname).then(
      (answer) => answer.address,
      () => fault(`${hostname} has no address: check the domain of the Worker (routes in wrangler.toml)`),
    );
    if (protocol === 'http:' && !['127.0.0.1', '::1'].includes(address)) {
      fault(`${url} is not https: passwords and tokens would go over the network readable`);
    }
    return `${hostname} is ${address}`;
  },
  async health() {
    const response = await ask('/health', bearer);
    const { message } = (await response.json()) as { message: string };
    return response.ok ? 'every part is connected' : fault(`${message}: ${adviceFor(message)}`);
  },
  async reference() {
    const response = await ask('/api/v1/openapi.json');
    const { info } = (await response.json()) as { info?: { version?: string; title?: string } };
    if (info === undefined) return fault(`${url} answers, but is not this service: check the address`);
    return `${info.title ?? 'the service'} ${info.version ?? ''}`;
  },
  async relay() {
    const client = await RelayClient.open(url).catch((error: unknown) =>
      fault(`${describeFailure(error)}: does a proxy let WebSockets through?`),
    );
    const { code } = await client.ask({ action: 'auth', ...stranger });
    client.terminate();
    return code === 401
      ? 'answers, and refuses what it does not know'
      : fault(`a stranger was answered ${String(code)}`);
  },
  async protection() {
    for (const path of ['/api/v1/devices', '/bridge/link', `${operatorPath}/metrics`]) {
      const { status } = await ask(path);
      // Without an upgrade the link is not found; what must not come is an answer.
      if (![401, 404, 426].includes(status)) fault(`${path} answers ${status} without credentials`);
    }
    return 'nothing is answered without credentials';
  },
  ...(broker !== undefined && { broker: () => checkBroker(broker) }),
  ...(operatorSecret !== undefined && {
    operator: async () => {
      const { ok } = await ask(`${operatorPath}/metrics`, bearer);
      return ok
        ? 'OPERATOR_SECRET is right'
        : fault('OPERATOR_SECRET is none of the OPERATOR_SECRETS of this deployment');
    },
  }),
};

// A reader that goes early, such as `head`, has seen enough.
process.stdout.on('error', () => process.exit());
let faults = 0;
for (const [name, run] of Object.entries(checks)) {
  try {
    print(`${styleText('green', 'ok   ')} ${name.padEnd(10)} ${await run()}`);
  } catch (error) {
    faults += 1;
    print(`${styleText('red', 'FAULT')} ${name.padEnd(10)} ${describeFailure(error)}`);
  }
}
if (broker === undefined) print(styleText('dim', 'The broker was not looked at from here: --broker mqtts://HOST:PORT'));
print(faults === 0 ? 'No fault found.' : `${faults} of ${Object.keys(checks).length} checks failed.`);
process.exit(faults === 0 ? 0 : 1);

function adviceFor(message: string): string {
  const advice: [RegExp, string][] = [
    [/migration/, 'npm run deploy applies it'],
    [/[A-Z]+_SECRETS|PASSWORDS/, 'put each that is named into secrets.env of .deploy, and deploy again'],
    [/[A-Z]+_[A-Z]+/, 'correct it in wrangler.toml and deploy again'],
    [/database/, 'look at the D1 database and its binding DB'],
    [/uplink/, "look at the bridge's log: its README says what each reason means"],
    [/bridge/, 'start the bridge, and compare its BRIDGE_SECRET and WORKER_URL with this deployment'],
    [/broker/, "look at the bridge's log: broker address, login and certificate"],
  ];
  const otherwise =
    operatorSecret === undefined
      ? 'OPERATOR_SECRET in the environment names the part'
      : 'look at the log of the Worker';
  return advice.find(([pattern]) => pattern.test(message))?.[1] ?? otherwise;
}

async function checkBroker(address: string): Promise<string> {
  const login = { ...stranger, clientId: stranger.username, protocolVersion: 4 } as const;
  const patience = { connectTimeout: answerWithinMs, reconnectPeriod: 0 };
  const outcome = await connectAsync(address, { ...login, ...patience }, false).then(
    (client) => client.endAsync(true).then(() => 'connected'),
    describeFailure,
  );
  if (outcome === 'connected') return fault(`${address} let a stranger in: its login check is off (BROKERS.md)`);
  if (/certificate|self.signed|CERT|altnames/i.test(outcome)) fault(`${outcome}: devices would not trust it either`);
  if (!/refused: /i.test(outcome)) fault(`${outcome}: firewall, or the broker is not running`);
  return `${address} is reachable and refuses strangers (${outcome})`;
}

async function ask(path: string, headers: Record<string, string> = {}): Promise<Response> {
  try {
    return await fetch(`${url}${path}`, { headers, redirect: 'manual', signal: AbortSignal.timeout(answerWithinMs) });
  } catch (error) {
    return fault(`${path}: ${describeFailure(error)}: is this the address, and does the service run there?`);
  }
}

function fault(text: string): never {
  throw new Error(text);
}
