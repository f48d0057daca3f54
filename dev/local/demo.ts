// The main job on the terminal as it happens: a virtual switch activates, comes online, gets a command, replies, and a
// relay subscriber shows each step. Uses the public interface alone, and may be run any number of times.
import { dataOf, describeFailure } from '../../rig/clients/api.ts';
import { eventually } from '../../rig/changes.ts';
import { RelayFollower } from '../../rig/clients/relay-client.ts';
import { openDemoAccount } from './demo-account.ts';
import { say, shorten, warn } from '../terminal.ts';
import { type Activation, type DeviceEvent, VirtualDevice } from '../virtual-device.ts';

const serial = 'DEMO-SWITCH-1';
const stepTimeoutMs = 10_000;
const reconnectEveryMs = 1_000;

export type DemoOptions = { apiUrl: string; stateDir: string; signal: AbortSignal };
/** `story` is over when the command has been sent; device and subscriber go on until `signal` says stop. */
export type Demo = { account: Owner; activation: Activation; story: Promise<void> };
type Owner = Awaited<ReturnType<typeof openDemoAccount>>;

export async function startDemo({ apiUrl, stateDir, signal }: DemoOptions): Promise<Demo> {
  const account = await openDemoAccount(apiUrl, stateDir);
  const { email, isNew, productKey } = account;
  say('api', `demo user ${email} ${isNew ? 'registered' : 'signed in'}, product ${productKey}`);

  const startedAtMs = performance.now();
  const onEvent = (event: DeviceEvent) => showDevice(event, startedAtMs);
  const device = new VirtualDevice({ apiUrl, productKey, serial, onEvent });
  signal.addEventListener('abort', () => {
    device.stop().catch((error: unknown) => warn('device', `did not disconnect in order: ${describeFailure(error)}`));
  });
  const activation = await device.start();

  async function tell(): Promise<void> {
    await subscribe(apiUrl, activation, signal);
    await showOnline(account, activation.deviceId);
    await sendCommand(account, activation.deviceId);
  }
  return { account, activation, story: tell() };
}

/** Resolves when the subscription is active. */
async function subscribe(apiUrl: string, { mqtt, topics }: Activation, signal: AbortSignal): Promise<void> {
  const { username, password } = mqtt;
  const root = topics.status.replace(/status$/, '');
  const shown = new Set<string>();
  const events = {
    onPushText: (text: string) => {
      const { topic, payload } = JSON.parse(text) as { topic: string; payload: unknown };
      say('relay', `pushed ${topic.replace(root, '')} ${shorten(payload)}`);
    },
    onLost: () => warn('relay', 'connection lost, connecting again'),
    onBack: () => {
      shown.clear();
      say('relay', `subscribed again to ${root}#`);
    },
    onFailedAttempt: (reason: string) => {
      if (!shown.has(reason)) warn('relay', reason);
      shown.add(reason);
    },
  };
  say('relay', `subscribing to ${root}#`);
  const relay = await RelayFollower.start(apiUrl, { username, password }, [`${root}#`], events, reconnectEveryMs);
  signal.addEventListener('abort', () => relay.close());
  if (signal.aborted) relay.close();
}

/** Shows transitions and commands; the report every 30 seconds shows as what the relay pushes. */
function showDevice(event: DeviceEvent, startedAtMs: number): void {
  if (event.type === 'activated') {
    say('device', `activated as ${event.activation.deviceId} (${sinceMs(startedAtMs)} ms)`);
  } else if (event.type === 'activation-failed') {
    warn('device', `activation failed, trying again: ${event.reason}`);
  } else if (event.type === 'online') say('device', 'MQTT session accepted');
  else if (event.type === 'offline') warn('device', 'MQTT connection lost, connecting again');
  else if (event.type === 'commanded') {
    say('device', `received command ${event.id}: ${JSON.stringify(event.params)}`);
  } else if (event.type === 'replied') say('device', `replied to ${event.id}`);
}

async function showOnline({ api }: Owner, deviceId: string): Promise<void> {
  const isOnline = async () => (await dataOf(api.devices[':deviceId'].status.$get({ param: { deviceId } }))).online;
  await eventually('a status view that shows the device online', isOnline, stepTimeoutMs);
  say('api', `status view: ${deviceId} is online`);
}

async function sendCommand({ api }: Owner, deviceId: string): Promise<void> {
  const body = { action: 'toggle' as const, position: 'down' as const };
  say('api', `command sent to ${deviceId}: ${JSON.stringify(body)}`);
  const sentAtMs = performance.now();
  const { message } = await dataOf(
    api.devices[':deviceId'].control.$post({ header: {}, query: {}, param: { deviceId }, json: body }),
  );
  say('api', `answered ${message}: it is on its way (${sinceMs(sentAtMs)} ms)`);
}

function sinceMs(startMs: number): number {
  return Math.round(performance.now() - startMs);
}
