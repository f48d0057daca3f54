// `npm run board`: a board on the terminal, without mosquitto's tools. It activates, shows each command, replies to it, and
// sends typed text as a report. Shows the connection data that a real board would use.
import { createInterface } from 'node:readline';
import { styleText } from 'node:util';
import { connect } from 'mqtt';
import { isJsonObject, parseJson } from '../src/domain/json.ts';
import { propertySetReplyMethod } from '../src/protocol/mqtt.ts';
import { activate } from '../rig/clients/accounts.ts';
import { connectApi, describeFailure } from '../rig/clients/api.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { readBaseAddress } from './base-address.ts';
import { whenToldToStop } from './stopping.ts';
import { fail, print, say, warn } from './terminal.ts';

const usage = `Usage: npm run board -- [--api URL] [--product KEY] [--serial SN]

  --api      base address of the service (http://127.0.0.1:8787)
  --product  product key to activate against (demo-switch)
  --serial   serial number (MY-BOARD-1): the same one gives the same device again

  Then type up, middle or down, or properties as JSON, e.g. {"wifi_rssi":-60}, to report them.`;

const options = {
  api: { type: 'string', default: 'http://127.0.0.1:8787' },
  product: { type: 'string', default: 'demo-switch' },
  serial: { type: 'string', default: 'MY-BOARD-1' },
} as const;
const { api, product, serial } = readCommandLine({ name: 'npm run board', usage, options }, ({ values }) => ({
  ...values,
  api: readBaseAddress('--api', values.api),
}));
try {
  const { deviceId, mqtt, topics } = await activate(connectApi(api), product, serial);
  const { server, port, username, password, clientId } = mqtt;
  say('api', `activated as ${deviceId}`);
  print(styleText('dim', `  MQTT ${server}:${port}, client id and username ${clientId}, password ${password}`));
  const client = connect(`mqtt://${server}:${port}`, { clientId, username, password, protocolVersion: 4 });
  client.on('connect', () => {
    client.subscribe(topics.propertySet, { qos: 1 });
    say('device', 'connected: type up, middle or down, or properties as JSON');
  });
  client.on('close', () => warn('device', 'connection lost, connecting again'));
  client.on('error', (error) => warn('broker', describeFailure(error)));
  client.on('message', (_topic, payload) => {
    const text = payload.toString();
    say('device', `command ${text}`);
    const id = /"id":"([^"]*)"/.exec(text)?.[1] ?? '';
    const reply = { method: propertySetReplyMethod, id, code: 200, data: {} };
    client.publish(topics.propertyPost, JSON.stringify(reply), { qos: 1 });
  });
  createInterface({ input: process.stdin }).on('line', (line) => {
    const params = readReport(line.trim());
    if (params === undefined) {
      warn('device', 'type up, middle or down, or properties as JSON');
      return;
    }
    client.publish(topics.propertyPost, JSON.stringify({ params }), { qos: 1 }, (error) => {
      if (error) warn('broker', describeFailure(error));
      else say('device', `reported ${JSON.stringify(params)}`);
    });
  });
  whenToldToStop(() => {
    client.removeAllListeners('close');
    client.end(false, {}, () => process.exit(0));
  });
} catch (error) {
  fail(`${api}: ${describeFailure(error)}`);
}

function readReport(line: string): Record<string, unknown> | undefined {
  if (['up', 'middle', 'down'].includes(line)) return { position: line };
  const parsed = parseJson(line);
  return isJsonObject(parsed) ? parsed : undefined;
}
