// The main job on the terminal as it happens: a virtual switch activates, comes online, gets a command, replies, and a
// relay subscriber shows each step. Uses the public interface alone, and may be run any number of times.
import { setTimeout as sleep } from 'node:timers/promises';
import { dataOf, describeFailure } from '../test/rig/api.ts';
import { eventually } from '../test/rig/changes.ts';
import { RelayFollower } from '../test/rig/relay-client.ts';
import { openDemoAccount } from './demo-account.ts';
import { say, warn } from './terminal.ts';
import { type Activation, type DeviceEvent, VirtualDevice } from './virtual-device.ts';

const serial = 'DEMO-SWITCH-1';
const stepTimeoutMs = 10_000;
const reconnectEveryMs = 1_000;
const shownPayloadLength = 140;

export type DemoOptions = { apiUrl: string; stateDir: string; signal: AbortSignal };
/** `story` is over when the command has been sent; device and subscriber go on until `signal` says stop. */
export type Demo = { account: Owner; activation: Activation; story: Promise<void> };
type Owner = Awaited<ReturnType<typeof openDemoAccount>>;

export async function startDemo({ apiUrl, stateDir, signal }: DemoOptions): Promise<Demo> {
  const account = await openDemoAccount(apiUrl, stateDir);
  const { email, isNew, productKey } = account;
  say('api', `demo user ${email} ${isNew ? 'registered' : 'signed in'}, product ${productKey}`);

  const online = Promise.withResolvers<undefined>();
  const onEvent = createDeviceStory(performance.now(), () => online.resolve(undefined));
  const device = new VirtualDevice({ apiUrl, productKey, serial, onEvent });
  signal.addEventListener('abort', () => {
    device.stop().catch((error: unknown) => warn('device', `did not disconnect in order: ${describeFailure(error)}`));
  });
  const activation = await device.start();

  async function tell(): Promise<void> {
    await subscribe(apiUrl, activation, signal);
    await within(online.promise, 'the device did not get its MQTT session');
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
      say('relay', `pushed ${topic.replace(root, '')} ${summarize(payload)}`);
    },
    onLost: () => warn('relay', 'connection lost, coming back'),
    onBack: () => {
      shown.clear();
      say('relay', `subscribed to ${root}#`);
    },
    onFailedAttempt: (reason: string) => {
      if (!shown.has(reason)) warn('relay', reason);
      shown.add(reason);
    },
  };
  const relay = await RelayFollower.start(apiUrl, { username, password }, [`${root}#`], events, reconnectEveryMs);
  say('relay', `subscribed to ${root}#`);
  signal.addEventListener('abort', () => relay.close());
  if (signal.aborted) relay.close();
}

/** Shows transitions and commands; the report every 30 seconds shows as what the relay pushes. */
function createDeviceStory(startedAtMs: number, onOnline: () => void): (event: DeviceEvent) => void {
  let isOnline = false;
  return (event) => {
    if (event.type === 'activated') {
      say('device', `activated as ${event.activation.deviceId} (${sinceMs(startedAtMs)} ms)`);
    } else if (event.type === 'activation-failed') {
      warn('device', `activation failed, trying again: ${event.reason}`);
    } else if (event.type === 'online') {
      isOnline = true;
      say('device', 'MQTT session accepted');
      onOnline();
    } else if (event.type === 'offline' && isOnline) {
      isOnline = false;
      warn('device', 'MQTT connection lost, coming back');
    } else if (event.type === 'commanded') {
      say('device', `received command ${event.id}: ${JSON.stringify(event.params)}`);
    } else if (event.type === 'replied') {
      say('device', `replied to ${event.id}`);
    }
  };
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
  say('api', `answered ${message}: the broker has it (${sinceMs(sentAtMs)} ms)`);
}

function summarize(payload: unknown): string {
  const text = JSON.stringify(payload);
  return text.length > shownPayloadLength ? `${text.slice(0, shownPayloadLength)}…` : text;
}

async function within(promise: Promise<unknown>, complaint: string): Promise<void> {
  const expired = sleep(stepTimeoutMs, 'expired', { ref: false });
  if ((await Promise.race([promise, expired])) === 'expired') throw new Error(complaint);
}

function sinceMs(startMs: number): number {
  return Math.round(performance.now() - startMs);
}
