// A push service and the browser behind it, on a real socket: messages are decrypted with the package that `web-push` uses, and
// VAPID tokens verified with jose. Asserts nothing.
import { createECDH, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { decrypt } from 'http_ece';
import { jwtVerify } from 'jose';
import type { TestProject } from 'vitest/node';
import type { Pushed } from './inputs/pushed.ts';

const browser = createECDH('prime256v1');
const keys = { p256dh: browser.generateKeys('base64url'), auth: randomBytes(16).toString('base64url') };

/** POST /{status}/...: a message, answered with that status, and not at all for `hang`. GET of the same path: what came. */
export default async function startPushService(project: TestProject): Promise<() => void> {
  const received: Partial<Record<string, Pushed[]>> = {};
  const server = createServer((request, response) => {
    const { url: path = '', method } = request;
    const list = (received[path] ??= []);
    if (method === 'GET') return response.end(JSON.stringify(list));
    const [, status] = path.split('/');
    readPush(request).then(
      (pushed) => {
        list.push(pushed);
        if (status !== 'hang') response.writeHead(Number(status), { Location: '/201/redirected' }).end('x'.repeat(1e5));
      },
      (error: unknown) => response.writeHead(400).end(String(error)),
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  project.provide('pushService', { url: `http://127.0.0.1:${port}`, keys });
  return () => {
    server.closeAllConnections();
    server.close();
  };
}

async function readPush(request: IncomingMessage): Promise<Pushed> {
  const { authorization = '', ...headers } = request.headers as Record<string, string>;
  const body = await buffer(request);
  const text = decrypt(body, { version: 'aes128gcm', privateKey: browser, authSecret: keys.auth }).toString();
  const [, token = '', key = ''] = /^vapid t=(\S+), k=(\S+)$/.exec(authorization) ?? [];
  const point = Buffer.from(key, 'base64url');
  const [x = '', y = ''] = [point.subarray(1, 33), point.subarray(33)].map((part) => part.toString('base64url'));
  const publicKey = { kty: 'EC', crv: 'P-256', x, y };
  const { payload } = await jwtVerify<Pushed['claims']>(token, publicKey, { algorithms: ['ES256'] });
  return { headers, text, key, claims: payload };
}
