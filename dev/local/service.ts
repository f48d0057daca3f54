// `npm start`: starts broker, Worker and bridge, or Worker and gateway with BROKER=none, as processes of their own and
// watches them. Runs the demo, then prints the lines to try next. Only calls the other files of this folder in order.
import { createWriteStream, mkdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { styleText } from 'node:util';
import { eventually } from '../../rig/changes.ts';
import { askHealth, describeFailure } from '../../rig/clients/api.ts';
import { readCommandLine } from '../../rig/command-line.ts';
import {
  brokerPart,
  gatewayPart,
  localBridgePart,
  localVars,
  type Place,
  workerBindings,
  workerPart,
} from '../../rig/services/parts.ts';
import { buildWorker } from '../../rig/worker/built-worker.ts';
import { whenToldToStop } from '../stopping.ts';
import { fail, print, say, showTrouble, warn } from '../terminal.ts';
import { prepareLocalCertificate } from './certificate.ts';
import { runDemo } from './demo.ts';
import { choosePorts } from './ports.ts';
import { loadSecrets, writeDevVars } from './secrets.ts';
import { checkVars, readSettings, type Settings } from './settings.ts';
import { claimStateDir } from './state-dir.ts';
import { createSupervisor, type Output, type Supervisor } from './supervisor.ts';
import { type Addresses, describeDemoSteps } from './try-next.ts';

const usage = `Usage: npm start

  Runs the built Worker, a broker and the bridge on this machine, and a virtual switch that shows them at work; Ctrl-C stops
  everything. Settings come from the environment, e.g. API_PORT=9000 npm start:

  API_PORT           port of the API, the console and the relay (8787); a default that is in use moves to the next free one
  MQTT_PORT          port for devices (1883); also MQTT_TLS_PORT (8883), BROKER_ADMIN_PORT (18083), HEALTH_PORT (18084)
  PUBLIC_HOST        a LAN address or name: all parts listen beyond loopback, so that real boards can join
  STATE_DIR          database, objects, spool, secrets and logs (.latchwork); npm run reset deletes it
  DEMO=no            without the demo user, product and virtual switch
  BROKER=none        Worker and gateway alone
  CORS_ORIGINS       origins of browser applications (http://localhost:*,http://127.0.0.1:*)
  LIMITS, RATE_LIMITS  see docs/limits.md`;

const patienceMs = 20_000;
const doubleSignalMs = 250;

const startedAtMs = performance.now();
let supervisor: Supervisor | undefined;
let stoppedAtMs = 0;
const stopping = new AbortController();

readCommandLine({ name: 'npm start', usage, options: {} }, () => undefined);
// The second Ctrl-C does not wait. npm passes the first one on, so that it arrives twice within a moment.
process.on('SIGINT', () => {
  if (isStopping() && performance.now() - stoppedAtMs > doubleSignalMs) process.exit(1);
});
whenToldToStop(stop);
// The reader of the output is gone: end as on Ctrl-C.
process.stdout.on('error', stop);
process.on('exit', () => supervisor?.killAll());

try {
  await run(readSettings(process.env));
} catch (error) {
  if (!isStopping()) {
    stopping.abort();
    await supervisor?.stop();
    fail(error);
  }
}

async function run(settings: Settings): Promise<void> {
  const { stateDir } = settings;
  const place = await choosePlace(settings);
  checkVars(workerBindings(place));
  // A run with a folder of its own leaves the repository as it is.
  if (process.env['STATE_DIR'] === undefined && writeDevVars(join(import.meta.dirname, '../..')))
    print('The settings and secrets of `npm run dev` are in .dev.vars.');
  const api = `http://127.0.0.1:${place.ports.api}`;
  const buildDir = join(stateDir, 'build');
  const partNames = place.hasBroker ? 'broker, Worker and bridge' : 'Worker and gateway';
  print(`Building the Worker, then starting ${partNames}: this takes a few seconds`);
  await buildWorker(buildDir);
  if (isStopping()) return;

  supervisor = createSupervisor(stateDir, writeLogFiles(stateDir));
  const entry = place.hasBroker ? brokerPart(place) : gatewayPart(place);
  await Promise.all([supervisor.start(workerPart(place, buildDir)), supervisor.start(entry)]);
  if (place.hasBroker) await supervisor.start(localBridgePart(place));
  let missing: string | undefined;
  const isHealthy = async () =>
    isStopping() || (missing = await askHealth(api, place.secrets.OPERATOR_SECRETS)) === undefined;
  await eventually(() => `all parts are connected: ${missing}`, isHealthy, patienceMs);
  if (isStopping()) return;

  const { shownHost: mqttHost, ports } = place;
  const host = `${mqttHost}:${ports.api}`;
  const addresses = { api: `http://${host}`, relay: `ws://${host}/mqtt`, mqttHost, mqttPort: ports.mqtt };
  printHeader(settings, place, addresses, supervisor);
  if (settings.hasDemo) await showDemo(api, stateDir, addresses);
  else print('Try next: "Five minutes with curl and MQTT" in README.md.');
}

/** The lines of each part go to a file of STATE_DIR/logs, and to the terminal those that a person should see. */
function writeLogFiles(stateDir: string): Output {
  const nameOf = (part: string) => join(stateDir, 'logs', `${part}.log`);
  const open = (part: string) => {
    mkdirSync(join(stateDir, 'logs'), { recursive: true });
    const log = createWriteStream(nameOf(part), { flags: 'a', mode: 0o600 });
    // A disk that is full must not end the parts.
    log.on('error', (error) => warn(part, `its log is not written any more: ${error.message}`));
    return (line: string) => {
      log.write(`${line}\n`);
      if (!isStopping()) showTrouble(part, line);
    };
  };
  return { open, say, warn, nameOf };
}

async function choosePlace(settings: Settings): Promise<Place> {
  const { stateDir, publicHost, hasBroker } = settings;
  const secrets = loadSecrets(stateDir);
  // Before the ports: what a killed run left may still hold them.
  await claimStateDir(stateDir);
  const bindHost = publicHost === undefined ? '127.0.0.1' : '0.0.0.0';
  const { mqttTls: port, ...ports } = await choosePorts(settings.ports, bindHost);
  const shownHost = publicHost ?? '127.0.0.1';
  const tls = { port, ...prepareLocalCertificate(stateDir, shownHost) };
  const vars = localVars(hasBroker, ports);
  return { stateDir, bindHost, shownHost, hasBroker, ports, tls, secrets, vars };
}

function printHeader({ stateDir, publicHost }: Settings, place: Place, addresses: Addresses, parts: Supervisor): void {
  const pid = (name: string) => styleText('dim', `pid ${parts.pidOf(name) ?? 0}`);
  const { mqttHost, mqttPort, api, relay } = addresses;
  const folder = relative(process.cwd(), stateDir);
  const reach =
    publicHost === undefined
      ? 'reachable from this machine only; PUBLIC_HOST=<LAN address> lets real boards connect'
      : `reachable from the network as ${publicHost}`;
  const mqtt = `  MQTT    ${mqttHost}:${mqttPort}, mqtts://${mqttHost}:${place.tls?.port ?? 0}`;
  const tookSeconds = ((performance.now() - startedAtMs) / 1000).toFixed(1);
  const lines = [
    `\n${styleText('bold', 'Latchwork')} is ready after ${tookSeconds} s`,
    `  Console ${api}/`,
    `  API     ${api}/api/v1, reference at ${api}/docs   ${pid('worker')}`,
    `  Relay   ${relay}`,
    place.hasBroker
      ? `${mqtt} (MQTT 3.1.1)   ${pid('broker')}`
      : `${mqtt} (MQTT 3.1.1 or 5) through the gateway   ${pid('gateway')}`,
    `  Direct  ${relay}/DEVICE_ID (MQTT 3.1.1 or 5 over WebSocket, without a broker)`,
    ...(place.hasBroker ? [`  Bridge  ${pid('bridge')}`] : []),
    `  State   ${folder.startsWith('..') ? stateDir : folder} (logs/, parts.json, secrets.env, tls/cert.pem to trust for mqtts)`,
    styleText('dim', `  ${reach}; rate limits: ${process.env['RATE_LIMITS'] ?? 'relaxed'}; Ctrl-C stops everything`),
  ];
  print(`${lines.join('\n')}\n`);
}

async function showDemo(apiUrl: string, stateDir: string, addresses: Addresses): Promise<void> {
  try {
    const demo = await runDemo({ apiUrl, stateDir, signal: stopping.signal });
    // The replies to the command belong before the list of things to try.
    await sleep(300);
    if (!isStopping()) print(describeDemoSteps(addresses, demo));
  } catch (error) {
    if (!isStopping()) warn('demo', `stopped: ${describeFailure(error)}`);
  }
}

function isStopping(): boolean {
  return stopping.signal.aborted;
}

function stop(): void {
  if (isStopping()) return;
  stopping.abort();
  stoppedAtMs = performance.now();
  if (supervisor !== undefined) print('\nStopping');
  Promise.resolve(supervisor?.stop()).then(() => process.exit(0), fail);
}
