// `npm run watch`: follows one device in the terminal, with the client package, as an application does: its present state, then
// each message. Needs no device credentials: the account's own.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { styleText } from 'node:util';
import { dataOf } from '../client/src/http.ts';
import { followDevice, type DeviceState } from '../client/src/follow-device.ts';
import { Session } from '../client/src/session.ts';
import { describeFailure } from '../rig/clients/api.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { readBaseAddress } from './base-address.ts';
import { whenToldToStop } from './stopping.ts';
import { fail, say, shorten, warn } from './terminal.ts';

const usage = `Usage: npm run watch -- [DEVICE] [--url URL]

  DEVICE  a device id, e.g. dev_9v284jvc; without one the newest device of the account
  --url   base address of the service (http://127.0.0.1:8787)

  The account is that of the demo, or LATCHWORK_USER and LATCHWORK_PASSWORD of the environment.`;

const options = { url: { type: 'string', default: 'http://127.0.0.1:8787' } } as const;
const command = { name: 'npm run watch', usage, options, allowPositionals: true } as const;
const { url, deviceId, ...account } = readCommandLine(command, ({ values, positionals: [deviceId] }) => ({
  ...{ url: readBaseAddress('--url', values.url), deviceId },
  ...readAccount(),
}));
try {
  const session = await Session.logIn(url, account, { onEnded: fail });
  const device = await findDevice(session);
  say('api', `following ${device.deviceId} (${device.name || device.deviceSN}, ${device.productKey}); Ctrl-C ends`);
  let state = '';
  const relay = session.openRelay({
    onState: (next) => {
      if (next !== state) say('relay', styleText('dim', next));
      state = next;
    },
  });
  const root = `/sys/${device.productKey}/${device.deviceId}/`;
  followDevice(session.api, relay, device, {
    onState: showState,
    onMessage: ({ topic, payload }) => showMessage(topic.replace(root, ''), payload),
    onError: fail,
  });
  whenToldToStop(() => process.exit(0));
} catch (error) {
  fail(`${url}: ${describeFailure(error)}`);
}

async function findDevice({ api }: Session) {
  if (deviceId !== undefined) return dataOf(api.devices[':deviceId'].$get({ param: { deviceId } }));
  const { list } = await dataOf(api.devices.$get({ query: { size: '1' } }));
  const [newest] = list;
  return newest ?? fail('This account has no device: activate one, for example with npm run board');
}

function showState({ status, properties }: DeviceState): void {
  const isOnline = status.online ? styleText('green', 'online') : styleText('red', status.status);
  const known = properties.map(({ name, value }) => `${name}=${shorten(value)}`).join(' ');
  say('device', `${isOnline}  ${known}`);
}

function showMessage(action: string, payload: unknown): void {
  const { method, params, status } = Object(payload) as { method?: string; params?: object; status?: string };
  // A reply may come on the topic of reports (contract 6, field note 47).
  if (action.endsWith('set_reply') || method?.endsWith('set_reply') === true)
    say('device', `replies ${shorten(payload)}`);
  else if (action.endsWith('property/post') && params !== undefined) say('device', `reports ${shorten(params)}`);
  else if (action.endsWith('property/set') && params !== undefined) say('api', `command ${shorten(params)}`);
  else if (action === 'status') say('device', styleText(status === 'online' ? 'green' : 'red', String(status)));
  else warn('device', `${action} ${shorten(payload)}`);
}

function readAccount(): { username: string; password: string } {
  const { LATCHWORK_USER: username, LATCHWORK_PASSWORD: password, STATE_DIR = '.latchwork' } = process.env;
  if (username !== undefined && password !== undefined) return { username, password };
  const demo = join(resolve(STATE_DIR), 'demo.json');
  if (!existsSync(demo)) throw new Error('Set LATCHWORK_USER and LATCHWORK_PASSWORD: there is no demo account here');
  const account = JSON.parse(readFileSync(demo, 'utf8')) as { email: string; password: string };
  return { username: account.email, password: account.password };
}
