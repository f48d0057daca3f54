// How the attackers' HTTP client takes connections that end while they rest: the service must not be blamed for it.
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { nameOfError, send } from './rig/traffic.ts';

const answer = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}';
const server = createServer();
const sockets = new Set<Socket>();

async function listen(serve: (socket: Socket, requests: number) => void): Promise<string> {
  server.removeAllListeners('connection');
  server.on('connection', (socket) => {
    let requests = 0;
    sockets.add(socket);
    socket.on('data', () => serve(socket, ++requests));
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  server.close();
  await once(server, 'close');
});

it('a kept connection that is cut when it is used again is replaced by a new one, also where the server cuts all of them', async () => {
  const url = await listen((socket, requests) => (requests === 1 ? socket.write(answer) : socket.resetAndDestroy()));
  await Promise.all(Array.from({ length: 5 }, () => send(url)));
  expect(sockets.size).toBe(5);
  expect(await send(url).then(({ status }) => status, nameOfError)).toBe(200);
  expect(sockets.size).toBe(6);
});

it('a server that cuts each connection is a finding', async () => {
  const url = await listen((socket) => socket.resetAndDestroy());
  expect(await send(url).catch(nameOfError)).toBe('ECONNRESET');
});
