// The main job on the terminal as it happens. A virtual switch activates, comes online, gets a command and replies; a relay
// subscriber shows each step. Uses the public interface alone, and may be run any number of times.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Relay } from '../../client/src/relay.ts';
import { eventually } from '../../rig/changes.ts';
import {
  addProduct,
  sendCommand,
  signUp,
  type Account,
  type Activation,
  type Session,
} from '../../rig/clients/accounts.ts';
import { connectApi, dataOf, describeFailure } from '../../rig/clients/api.ts';
import { say, shorten, warn } from '../terminal.ts';
import { type OnDeviceEvent, createVirtualDevice } from '../virtual-device.ts';
import { writeOnce } from './secrets.ts';

const [productKey, serial] = ['demo-switch', 'DEMO-SWITCH-1'];
const stepTimeoutMs = 10_000;
const reconnectWithinMs = 1_000;

export type DemoOptions = { apiUrl: string; stateDir: string; signal: AbortSignal };
export type Demo = { account: Session; productKey: string; activation: Activation };

/** Resolves when the command has been sent; device and subscriber go on until `signal` says stop. */
export async function runDemo({ apiUrl, stateDir, signal }: DemoOptions): Promise<Demo> {
  const account = await openAccount(apiUrl, stateDir);
  const device = createVirtualDevice({ apiUrl, productKey, serial, onEvent: showDevice });
  signal.addEventListener('abort', () => {
    device.stop().catch((error: unknown) => warn('device', `did not disconnect in order: ${describeFailure(error)}`));
  });
  const activation = await device.start();
  await subscribe(apiUrl, activation, signal);
  await showOnline(account, activation.deviceId);
  await showCommand(account, activation.deviceId);
  return { account, productKey, activation };
}

/** User and product: made at the first start, found again later. The password is random and kept in the state folder. */
async function openAccount(apiUrl: string, stateDir: string): Promise<Session> {
  const path = join(stateDir, 'demo.json');
  writeOnce(path, JSON.stringify({ email: 'demo@example.com', password: randomBytes(12).toString('base64url') }));
  const account = JSON.parse(readFileSync(path, 'utf8')) as Account;
  const session = await signUp((credentials) => connectApi(apiUrl, credentials), account);
  const names = { name: 'Demo switch', description: 'The virtual switch of the local demo', model: 'LW-DEMO' };
  const looks = { category: 'switch', uiTemplate: 'switch', iconName: 'toggle_on', iconColor: '#2E7D32' } as const;
  await addProduct(session, { productKey, manufacturer: 'Latchwork', ...names, ...looks });
  const isNew = session.isNew ? 'registered' : 'signed in';
  say('api', `demo user ${account.email} ${isNew}, product ${productKey}`);
  return session;
}

/** Resolves when the subscription is active. */
async function subscribe(apiUrl: string, { mqtt, topics }: Activation, signal: AbortSignal): Promise<void> {
  const root = topics.status.replace(/status$/, '');
  say('relay', `subscribing to ${root}#`);
  const relay = new Relay(apiUrl, {
    login: { username: mqtt.username, password: mqtt.password },
    backOff: { maxMs: reconnectWithinMs },
    onState: (state, detail) => {
      if (state === 'waiting' && !signal.aborted) warn('relay', `${detail}, connecting again`);
    },
  });
  signal.addEventListener('abort', () => relay.close());
  await relay.subscribe(`${root}#`, {
    onMessage: ({ topic, payload }) => say('relay', `pushed ${topic.replace(root, '')} ${shorten(payload)}`),
  }).active;
}

/** Shows transitions and commands. A report shows as the push of the relay. */
const showDevice: OnDeviceEvent = (event, text) => {
  if (event === 'failed' || event === 'offline') warn('device', text);
  else if (event !== 'reported' && event !== 'unreachable') say('device', text);
};

/** It has reported too, which it does after it subscribed: a command would find no subscriber before. */
async function showOnline({ api }: Session, deviceId: string): Promise<void> {
  const isOnline = async () => {
    const { online, position } = await dataOf(api.devices[':deviceId'].status.$get({ param: { deviceId } }));
    return online && position !== null;
  };
  await eventually('a status view that shows the device online, with its position', isOnline, stepTimeoutMs);
  say('api', `status view: ${deviceId} is online`);
}

async function showCommand({ api }: Session, deviceId: string): Promise<void> {
  const json = { action: 'toggle' as const, position: 'down' as const };
  say('api', `command sent to ${deviceId}: ${JSON.stringify(json)}`);
  const { message } = await sendCommand(api, { deviceId }, json);
  say('api', `answered ${message}: it is on its way`);
}
