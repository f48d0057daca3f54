// The API of a server as other machines reach it: through nginx and Caddy with the examples, and through the server's own front with
// TLS. All three carry everything, and none believes a client's word about its address.
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { type Certificates, makeCertificates } from '../../rig/certificates.ts';
import { eventually } from '../../rig/changes.ts';
import { activate, addProduct, sendCommand, signUp } from '../../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../../rig/clients/api.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { RelayClient } from '../../rig/clients/relay-client.ts';
import { findFreePort } from '../../rig/ports.ts';
import { proxyMissing, ReverseProxy } from '../../rig/services/reverse-proxies.ts';
import { prepareServer, ServerRun } from '../../rig/services/server-run.ts';
import { deviceAddressHeader } from '../../src/protocol/gateway.ts';

const host = 'latchwork.test';
const from = '127.0.0.2';
/** What a client may say about its address. */
const forged = { 'CF-Connecting-IP': '198.51.100.9', 'X-Forwarded-For': '198.51.100.9', Forwarded: 'for=198.51.100.9' };
let certificates: Certificates;
let server: ServerRun;
let frontPort: number;

beforeAll(async () => {
  certificates = makeCertificates(host);
  frontPort = await findFreePort();
  const { serverCert, serverKey } = certificates;
  const tls = { HTTPS_PORT: String(frontPort), TLS_CERT_FILE: serverCert, TLS_KEY_FILE: serverKey };
  server = await ServerRun.start(await prepareServer(tls));
});
afterAll(() => server.kill('SIGTERM'));

/** TLS to 127.0.0.1 under the name in the certificate, from an address of its own. */
const connection = () => ({
  ca: readFileSync(certificates.ca),
  servername: host,
  localAddress: from,
  lookup: (_name: string, _options: object, done: (error: null, address: string, family: number) => void) =>
    done(null, '127.0.0.1', 4),
});

/** In the place of fetch. */
async function send(asked: Request): Promise<Response> {
  const headers = { ...Object.fromEntries(asked.headers), ...forged };
  const body = Buffer.from(await asked.arrayBuffer());
  return new Promise((resolve, reject) => {
    const sent = request(asked.url, { ...connection(), method: asked.method, headers }, (answer) => {
      const { statusCode: status = 0, headers } = answer;
      buffer(answer).then(
        (text) => resolve(new Response(text, { status, headers: headers as Record<string, string> })),
        reject,
      );
    });
    sent.on('error', reject).end(body);
  });
}

async function statusOfUpgrade(url: string, headers: Record<string, string>): Promise<number> {
  const socket = new WebSocket(url, 'mqtt', { ...connection(), headers });
  const status = await new Promise<number>((resolve, reject) => {
    socket.on('unexpected-response', (_request, { statusCode = 0 }) => resolve(statusCode));
    socket.on('open', () => reject(new Error('it was let in')));
    socket.on('error', reject);
  });
  return status;
}

describe.each(['front', 'nginx', 'caddy'] as const)('through %s', (way) => {
  const missing = way === 'front' ? null : proxyMissing(way);
  let proxy: ReverseProxy | undefined;
  let origin: string;
  beforeAll(async () => {
    if (missing !== null) return;
    if (way !== 'front') proxy = await ReverseProxy.start(way, server.settings['API_PORT']!, host, certificates);
    origin = `https://${host}:${proxy?.port ?? frontPort}`;
  });
  afterAll(() => proxy?.stop());

  it.skipIf(missing !== null)(
    `serves the console, the API, the relay and direct connections${missing ?? ''}`,
    async () => {
      const page = await send(new Request(`${origin}/`));
      expect([page.status, page.headers.get('content-type')]).toEqual([200, expect.stringContaining('text/html')]);
      expect(await page.text()).toContain('<title>');
      const owner = await signUp((credentials) => connectApi(origin, credentials, send));
      const { list } = await dataOf(owner.api.users.me.sessions.$get({ query: {} }));
      expect(list.map(({ clientAddress }) => clientAddress)).toEqual([from]);

      const productKey = await addProduct(owner);
      const device = await activate(connectApi(origin, undefined, send), productKey, 'SN-1');
      const link = {
        command: { action: 'toggle' as const, position: 'up' },
        expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
      };
      const links = owner.api.devices[':deviceId']['guest-links'];
      const { url: made } = await dataOf(links.$post({ param: device, json: link }));
      expect(made).toContain(`${origin}/g/`);
      const options = { wsOptions: { ...connection(), headers: forged } };
      const url = `${origin.replace('https', 'wss')}/mqtt`;
      const board = await MqttTestClient.ofDevice(`${url}/${device.deviceId}`, device, 4, options);
      await board.client.subscribeAsync(device.topics.propertySet, { qos: 1 });
      const relay = await RelayClient.open(origin, { socket: { ...connection(), headers: forged } });
      await relay.follow({ token: owner.token }, [`${device.topics.status.replace(/status$/, '')}#`]);
      await sendCommand(owner.api, device, { action: 'toggle', position: 'up' });
      await board.untilHeard(device.topics.propertySet);
      await board.client.publishAsync(device.topics.propertyPost, '{"params":{"position":"up"}}', { qos: 1 });
      await eventually('the push of the report', () =>
        relay.pushes.some(({ payload }) => JSON.stringify(payload).includes('up')),
      );
      relay.close();
      await board.leave();
    },
  );

  it.skipIf(missing !== null)(
    'passes refusals of WebSockets on, and the word of no gateway without its secret',
    async () => {
      const url = `${origin.replace('https', 'wss')}/mqtt`;
      expect(await statusOfUpgrade(`${url}/dev_unknown`, forged)).toBe(404);
      expect(await statusOfUpgrade(url, { [deviceAddressHeader]: '198.51.100.9' })).toBe(401);
      const wrong = new Request(`${origin}/api/v1/users/login`, { method: 'POST', body: 'x'.repeat(2_000) });
      expect((await send(wrong)).status).toBe(400);
    },
  );
});
