// The main job on the terminal as it happens: a virtual switch activates, comes online, is commanded, replies, and a
// relay subscriber sees it all. Uses the public interface alone, and may be run any number of times.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, dataOf } from '../src/client.ts';
import { type DemoAccount, openDemoAccount } from './demo-account.ts';
import { RelaySubscriber } from './relay-subscriber.ts';
import { say, warn } from './terminal.ts';
import { type Activation, type DeviceEvent, VirtualDevice } from './virtual-device.ts';

const serial = 'DEMO-SWITCH-1';
const stepTimeoutMs = 10_000;

export type DemoOptions = { apiUrl: string; relayUrl: string; stateDir: string; signal: AbortSignal };
/** `story` is over when the command has been sent; device and subscriber go on until `signal` says stop. */
export type Demo = { account: DemoAccount; token: string; activation: Activation; story: Promise<void> };

export async function startDemo({ apiUrl, relayUrl, stateDir, signal }: DemoOptions): Promise<Demo> {
  const { account, token, isNew } = await openDemoAccount(apiUrl, stateDir);
  say('api', `demo user ${account.email} ${isNew ? 'registered' : 'signed in'}, product ${account.productKey}`);

  const online = Promise.withResolvers<undefined>();
  const startedAtMs = performance.now();
  const device = new VirtualDevice({
    apiUrl,
    productKey: account.productKey,
    serial,
    onEvent: createDeviceStory(startedAtMs, () => online.resolve(undefined)),
  });
  signal.addEventListener('abort', () => void device.stop());
  const activation = await device.start();
  const subscribed = subscribe(relayUrl, activation, signal);

  async function tell(): Promise<void> {
    await within(online.promise, 'the device did not get its MQTT session');
    await within(subscribed, 'the relay did not answer');
    await showOnline(apiUrl, token, activation.deviceId);
    await sendCommand(apiUrl, token, activation.deviceId);
  }
  return { account, token, activation, story: tell() };
}

/** Resolves when the subscription stands. */
function subscribe(url: string, { mqtt, topics }: Activation, signal: AbortSignal): Promise<void> {
  const { username, password } = mqtt;
  const root = topics.status.replace(/status$/, '');
  return new Promise((resolve) => {
    const relay = new RelaySubscriber({
      url,
      username,
      password,
      topic: `${root}#`,
      onSubscribed: () => {
        say('relay', `subscribed to ${root}#`);
        resolve();
      },
      onPush: ({ topic, payload }) => say('relay', `pushed ${topic.replace(root, '')} ${summarize(payload)}`),
      onLost: () => warn('relay', 'connection lost, coming back'),
      onRefused: (reason) => warn('relay', `refused ${reason}`),
    });
    signal.addEventListener('abort', () => relay.close());
  });
}

/** Tells transitions and commands; the report every 30 seconds shows as what the relay pushes. */
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

async function showOnline(apiUrl: string, token: string, deviceId: string): Promise<void> {
  const call = createClient(apiUrl, { credentials: { token } });
  const deadlineMs = Date.now() + stepTimeoutMs;
  while (Date.now() < deadlineMs) {
    const { online } = await dataOf(call.devices[':deviceId'].status.$get({ param: { deviceId } }));
    if (online) {
      say('api', `status view: ${deviceId} is online`);
      return;
    }
    await sleep(20);
  }
  throw new Error('the status view does not show the device online');
}

async function sendCommand(apiUrl: string, token: string, deviceId: string): Promise<void> {
  const body = { action: 'toggle' as const, position: 'down' as const };
  say('api', `command sent to ${deviceId}: ${JSON.stringify(body)}`);
  const sentAtMs = performance.now();
  const call = createClient(apiUrl, { credentials: { token } });
  const { message } = await dataOf(
    call.devices[':deviceId'].control.$post({ param: { deviceId }, json: body, query: {}, header: {} }),
  );
  say('api', `answered ${message}: the broker has it (${sinceMs(sentAtMs)} ms)`);
}

function summarize(payload: unknown): string {
  const text = JSON.stringify(payload);
  return text.length > 140 ? `${text.slice(0, 140)}…` : text;
}

async function within(promise: Promise<unknown>, complaint: string): Promise<void> {
  const timeout = new AbortController();
  const expired = sleep(stepTimeoutMs, undefined, { signal: timeout.signal }).then(() => {
    throw new Error(complaint);
  });
  try {
    await Promise.race([promise, expired]);
  } finally {
    timeout.abort();
    expired.catch(() => undefined);
  }
}

function sinceMs(startMs: number): number {
  return Math.round(performance.now() - startMs);
}
