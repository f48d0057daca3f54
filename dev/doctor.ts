// `npm run doctor`: looks at a deployment from outside, as applications, devices and the bridge meet it, and says for each fault
// what to do. Changes nothing, and needs no account.
import { lookup } from 'node:dns/promises';
import { connect as connectTcp } from 'node:net';
import { styleText } from 'node:util';
import { connect as connectMqtt } from 'mqtt';
import { WebSocket } from 'ws';
import { operatorPath } from '../src/protocol/operator.ts';
import { describeFailure } from '../rig/clients/api.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { readBaseAddress } from './base-address.ts';
import { print } from './terminal.ts';

const usage = `Usage: npm run doctor -- --url URL [--broker mqtts://HOST:PORT] [--bridge http://HOST:PORT]

  --url     base address of the service
  --broker  the address that devices get, with the scheme: whether it is reachable and refuses strangers
  --bridge  the bridge's own address (HEALTH_PORT), where it can be reached from here

  With OPERATOR_SECRET in the environment its use is checked, too.`;

const answerWithinMs = 10_000;
const maxSkewSeconds = 60;
/** A check throws the fault, with what to do after the colon. */
type Check = { what: string; run: () => Promise<string> };

const { url, broker, bridge } = readArguments();
const checks: Check[] = [
  { what: 'address', run: checkAddress },
  { what: 'health', run: checkHealth },
  { what: 'reference', run: checkReference },
  { what: 'clock', run: checkClock },
  { what: 'relay', run: checkRelay },
  { what: 'protection', run: checkProtection },
  ...(broker === undefined ? [] : [{ what: 'broker', run: () => checkBroker(broker) }]),
  ...(bridge === undefined ? [] : [{ what: 'bridge', run: () => checkBridge(bridge) }]),
  ...(process.env['OPERATOR_SECRET'] === undefined ? [] : [{ what: 'operator', run: checkOperator }]),
];

let faults = 0;
for (const { what, run } of checks) {
  try {
    print(`${styleText('green', 'ok   ')} ${what.padEnd(10)} ${await run()}`);
  } catch (error) {
    faults += 1;
    print(`${styleText('red', 'FAULT')} ${what.padEnd(10)} ${describeFailure(error)}`);
  }
}
if (broker === undefined) print(styleText('dim', 'The broker was not looked at from here: --broker mqtts://HOST:PORT'));
print(faults === 0 ? 'No fault found.' : `${faults} of ${checks.length} checks failed.`);
process.exit(faults === 0 ? 0 : 1);

async function checkAddress(): Promise<string> {
  const { hostname, protocol } = new URL(url);
  try {
    const { address } = await lookup(hostname);
    if (protocol === 'http:' && !['127.0.0.1', '::1'].includes(address)) {
      throw new Error(`${url} is not https: passwords and tokens would go over the network readable`);
    }
    return `${hostname} is ${address}`;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    throw new Error(`${hostname} has no address: check the domain of the Worker (routes in wrangler.toml)`, {
      cause: undefined,
    });
  }
}

async function checkHealth(): Promise<string> {
  const response = await ask('/health');
  const { message } = (await response.json()) as { message: string };
  if (response.ok) return 'every part is connected';
  throw new Error(`${message}: ${adviceFor(message)}`);
}

function adviceFor(message: string): string {
  const advice: [RegExp, string][] = [
    [/migration/, 'npx wrangler d1 migrations apply latchwork --remote'],
    [/[A-Z]+_SECRETS|PASSWORDS/, 'npx wrangler secret put NAME, for each that is named'],
    [/[A-Z]+_[A-Z]+/, 'correct it in wrangler.toml and deploy again'],
    [/database/, 'look at the D1 database and its binding DB'],
    [/uplink/, "look at the bridge's log: its README says what each reason means"],
    [/bridge/, 'start the bridge, and compare its BRIDGE_SECRET and WORKER_URL with this deployment'],
    [/broker/, "look at the bridge's log: broker address, login and certificate"],
  ];
  return advice.find(([pattern]) => pattern.test(message))?.[1] ?? 'look at the log of the Worker';
}

async function checkReference(): Promise<string> {
  const response = await ask('/api/v1/openapi.json');
  const { info } = (await response.json()) as { info?: { version?: string; title?: string } };
  if (info === undefined) throw new Error(`${url} answers, but is not this service: check the address`);
  return `${info.title ?? 'the service'} ${info.version ?? ''}`;
}

async function checkClock(): Promise<string> {
  const response = await ask('/health');
  const date = Date.parse(response.headers.get('Date') ?? '');
  if (Number.isNaN(date)) return 'the service tells no time';
  const skewSeconds = Math.abs(Date.now() - date) / 1000;
  if (skewSeconds > maxSkewSeconds) {
    throw new Error(`this clock and the service's differ by ${Math.round(skewSeconds)} s: set the time here (NTP)`);
  }
  return `differs by less than ${maxSkewSeconds} s`;
}

async function checkRelay(): Promise<string> {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/mqtt`);
  try {
    return await new Promise<string>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error('no answer: does a proxy let WebSockets through?')),
        answerWithinMs,
      );
      socket.on('open', () =>
        socket.send(JSON.stringify({ action: 'auth', username: 'doctor&dev_00000000', password: '-' })),
      );
      socket.on('message', (data) => {
        clearTimeout(timer);
        const { code } = JSON.parse((data as Buffer).toString()) as { code?: number };
        if (code === 401) resolve('answers, and refuses what it does not know');
        else reject(new Error(`a login that nobody has was answered ${code ?? 'nothing'}`));
      });
      socket.on('error', (error) => {
        clearTimeout(timer);
        reject(new Error(`${error.message}: does a proxy let WebSockets through?`));
      });
    });
  } finally {
    socket.terminate();
  }
}

async function checkProtection(): Promise<string> {
  for (const path of ['/api/v1/devices', '/bridge/link', `${operatorPath}/metrics`]) {
    const { status } = await ask(path);
    // Without an upgrade the link is not found; what must not come is an answer.
    if (![401, 404, 426].includes(status)) throw new Error(`${path} answers ${status} without credentials`);
  }
  return 'nothing is answered without credentials';
}

async function checkBroker(address: string): Promise<string> {
  const { hostname, port, protocol } = new URL(address);
  const isSecure = ['mqtts:', 'wss:'].includes(protocol);
  if (protocol.startsWith('mqtt')) await openTcp(hostname, Number(port === '' ? (isSecure ? 8883 : 1883) : port));
  const client = connectMqtt(address, {
    clientId: 'doctor&dev_00000000',
    username: 'doctor&dev_00000000',
    password: 'no-password-of-anybody',
    reconnectPeriod: 0,
    connectTimeout: answerWithinMs,
    protocolVersion: 4,
  });
  const outcome = await new Promise<string>((resolve) => {
    client.on('connect', () => resolve('connected'));
    client.on('error', (error) => resolve(error.message));
    client.on('close', () => resolve('closed'));
  });
  client.end(true);
  if (outcome === 'connected') throw new Error(`${address} let a stranger in: its login check is off (BROKERS.md)`);
  if (/certificate|self.signed|CERT|altnames/i.test(outcome))
    throw new Error(`${outcome}: devices would not trust it either`);
  return `${address} is reachable and refuses strangers (${outcome})`;
}

async function openTcp(host: string, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const socket = connectTcp({ host, port, timeout: answerWithinMs });
    const end = (error?: Error): void => {
      socket.destroy();
      if (error === undefined) resolve();
      else reject(error);
    };
    socket.on('connect', () => end());
    socket.on('timeout', () =>
      end(new Error(`${host}:${port} does not answer: firewall, or the broker is not running`)),
    );
    socket.on('error', (error) => end(new Error(`${error.message}: firewall, or the broker is not running`)));
  });
}

async function checkBridge(address: string): Promise<string> {
  const response = await fetch(`${address.replace(/\/+$/, '')}/readyz`, {
    signal: AbortSignal.timeout(answerWithinMs),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`it is not ready: ${text}`);
  return text.slice(0, 200);
}

async function checkOperator(): Promise<string> {
  const response = await ask(`${operatorPath}/metrics`, {
    Authorization: `Bearer ${process.env['OPERATOR_SECRET'] ?? ''}`,
  });
  if (!response.ok) throw new Error('OPERATOR_SECRET is none of the OPERATOR_SECRETS of this deployment');
  return 'OPERATOR_SECRET is right';
}

async function ask(path: string, headers: Record<string, string> = {}): Promise<Response> {
  try {
    return await fetch(`${url}${path}`, { headers, redirect: 'manual', signal: AbortSignal.timeout(answerWithinMs) });
  } catch (error) {
    throw new Error(`${path}: ${describeFailure(error)}: is this the address, and does the service run there?`, {
      cause: undefined,
    });
  }
}

function readArguments() {
  const options = { url: { type: 'string' }, broker: { type: 'string' }, bridge: { type: 'string' } } as const;
  return readCommandLine({ name: 'npm run doctor', usage, options }, ({ values }) => {
    const { broker, bridge } = values;
    if (broker !== undefined && !/^(mqtts?|wss?):\/\//.test(broker))
      throw new Error('--broker needs mqtts://HOST:PORT');
    return { url: readBaseAddress('--url', values.url), broker, bridge };
  });
}
