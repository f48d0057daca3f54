// Connections at the gateway, by TCP and TLS, that begin and do not end: mute, slow, half a CONNECT, half closed, half a
// handshake. Also a device that is let in and reads nothing.
import { connect, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import mqtt from 'mqtt';
import { generate } from 'mqtt-packet';
import type { Activation } from '../../../rig/clients/accounts.ts';
import { placesOfAddress, Tally, type Attack, type Target } from '../rig/attack.ts';
import { nameOfError, send, times } from '../rig/traffic.ts';

/** The gateway closes them after 10 s, and cuts what does not end 5 s after that. */
const closedWithinMs = 45_000;
const honestWithinMs = 10_000;
const restedWithinMs = 20_000;
const maxGrownBytes = 64 * 2 ** 20;

const oneAddress = '127.2.0.1';
const addressOf = (number: number): string => `127.3.${(number >> 7) & 255}.${1 + (number & 127)}`;

type Way = { name: string; isTls: boolean; hold: (socket: Socket) => void };

const half = generate({
  ...{ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clean: true, keepalive: 60 },
  ...{ clientId: 'x', username: 'x', password: Buffer.from('tk_x') },
}).subarray(0, 9);

/** One byte a second until the connection has ended. */
function drip(socket: Socket, bytes: Buffer): void {
  let at = 0;
  const timer = setInterval(() => socket.write(bytes.subarray(at % bytes.length, (at++ % bytes.length) + 1)), 1_000);
  socket.once('close', () => clearInterval(timer));
}

function waysOf(hello: Buffer): Way[] {
  // A remaining length that says more is to come.
  const long = Buffer.concat([Buffer.from([0x10, 0xff, 0x7f]), half.subarray(2), Buffer.alloc(60, 0x41)]);
  const way = (name: string, isTls: boolean, hold: Way['hold']): Way => ({ name, isTls, hold });
  return [
    way('mute', false, () => undefined),
    way('half of a CONNECT', false, (socket) => socket.write(half)),
    way('a byte a second', false, (socket) => drip(socket, long)),
    way('half of a CONNECT, its side closed', false, (socket) => socket.end(half)),
    way('TLS: mute', true, () => undefined),
    way('TLS: half of a hello', true, (socket) => socket.write(hello.subarray(0, 40))),
    way('TLS: a hello and nothing more', true, (socket) => socket.write(hello)),
    way('TLS: a hello, a byte a second', true, (socket) => drip(socket, hello)),
  ];
}

/** What a client sends first, without a server. */
function readHello(): Promise<Buffer> {
  const { promise, resolve } = Promise.withResolvers<Buffer>();
  const line = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => {
      resolve(chunk);
      done();
    },
  });
  connectTls({ socket: line, servername: 'mqtt.test' }).on('error', () => undefined);
  return promise;
}

/** How it ended. This side does not answer the end of the other one by itself. */
function holdOpen({ gateway }: Target, number: number, { isTls, hold }: Way): Promise<'closed' | 'refused' | 'open'> {
  const { promise, resolve } = Promise.withResolvers<'closed' | 'refused' | 'open'>();
  const localAddress = number % 4 < 2 ? oneAddress : addressOf(number);
  const port = isTls ? gateway.tlsPort : gateway.port;
  const startedAtMs = performance.now();
  const socket = connect({ port, host: '127.0.0.1', localAddress, allowHalfOpen: true });
  const end = (how: 'closed' | 'refused' | 'open'): void => {
    clearTimeout(timer);
    socket.destroy();
    resolve(how);
  };
  const timer = setTimeout(() => end('open'), closedWithinMs);
  const noteEnd = (): void => end(performance.now() - startedAtMs < 2_000 ? 'refused' : 'closed');
  socket.once('connect', () => hold(socket));
  socket.on('error', noteEnd).on('end', noteEnd).on('close', noteEnd);
  // The end of the other side is seen only if its bytes are taken.
  socket.resume();
  return promise;
}

/** One who behaves, from an address of his own: whether he gets in and is answered. */
async function visit({ gateway, own }: Target, tally: Tally): Promise<void> {
  const device = own.devices[7]!;
  const { username, password, clientId } = device.mqtt;
  const startedAtMs = performance.now();
  try {
    const login = { username, password, clientId, connectTimeout: honestWithinMs, reconnectPeriod: 0 };
    const client = await mqtt.connectAsync(`mqtt://127.0.0.1:${gateway.port}`, login, false);
    await client.publishAsync(device.topics.propertyPost, '{"id":"1","params":{"position":"up"}}', { qos: 1 });
    await client.endAsync(true);
    tally.note('a device is served');
  } catch (error) {
    const ms = Math.round(performance.now() - startedAtMs);
    tally.problem(`a device that behaves is not served: ${nameOfError(error)} after ${ms} ms`);
  }
}

async function metricOf({ gateway }: Target, name: string): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${gateway.healthPort}/metrics`);
  const line = (await answer.text()).split('\n').find((candidate) => candidate.startsWith(`gateway_${name} `));
  return Number(line?.split(' ')[1]);
}

/** A device that is let in, sends without end and reads nothing of the answers. */
async function readNothing({ gateway, own }: Target, untilMs: number, tally: Tally): Promise<void> {
  const { username, password, clientId } = own.devices[6]!.mqtt;
  const socket = connect({ port: gateway.port, host: '127.0.0.1', localAddress: addressOf(0) });
  socket.on('error', () => undefined);
  const isGone = (): boolean => socket.destroyed;
  socket.write(
    generate({
      ...{ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clean: true, keepalive: 60 },
      ...{ clientId, username, password: Buffer.from(password) },
    }),
  );
  socket.once('data', () => socket.pause());
  const pings = Buffer.alloc(64 * 1024, Buffer.from([0xc0, 0x00]));
  while (performance.now() < untilMs && !isGone()) {
    if (socket.writableLength < pings.length) socket.write(pings);
    await sleep(20);
  }
  tally.note(isGone() ? 'a device that reads nothing: ended' : 'a device that reads nothing: waits');
  socket.destroy();
}

export const gatewayHalfOpen: Attack[] = [
  {
    name: 'gateway-plural',
    title: 'more devices of one address than the gateway has places for it, each with a login that is right',
    holds: 'refused beyond the share of the address; a device from elsewhere is served',
    isOnce: true,
    run: async (target) => {
      const tally = new Tally();
      const { gateway, own, url } = target;
      const held: Socket[] = [];
      await times(8, 1.1 * placesOfAddress, async (number) => {
        const body = JSON.stringify({ productKey: own.productKey, deviceSN: `PLURAL-${number}` });
        const answer = await send(`${url}/api/v1/devices/activate`, { method: 'POST', body, address: '192.0.2.99' });
        const { username, password, clientId } = (JSON.parse(answer.text) as { data: Activation }).data.mqtt;
        const socket = connect({ port: gateway.port, host: '127.0.0.1', localAddress: '127.2.0.2' });
        held.push(socket);
        const login = { username, clientId, password: Buffer.from(password) };
        socket.write(generate({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clean: true, ...login }));
        const end = (event: string, how: string) =>
          new Promise((resolve) => void socket.once(event, () => resolve(how)));
        tally.note(
          String(await Promise.race([end('data', 'let in'), end('error', 'refused'), end('close', 'refused')])),
        );
      });
      await visit(target, tally);
      if (tally.of('let in') > placesOfAddress) tally.problem(`one address got ${tally.of('let in')} connections`);
      if (tally.of('let in') < placesOfAddress / 2) tally.problem('devices of one address are not served');
      for (const socket of held) socket.destroy();
      return tally.result();
    },
  },
  {
    name: 'gateway-half-open',
    title: 'connections at the gateway, TCP and TLS, that say nothing, half or a byte a second, or read nothing',
    holds: 'refused beyond a cap, closed after a deadline, little memory; devices are served meanwhile',
    isOnce: true,
    run: async (target, { sockets }) => {
      const tally = new Tally();
      const ways = waysOf(await readHello());
      const memoryBefore = await metricOf(target, 'process_resident_memory_bytes');
      const over = new AbortController();
      const visits = (async () => {
        do {
          await visit(target, tally);
          await sleep(1_000);
        } while (!over.signal.aborted);
      })();
      const greedy = readNothing(target, performance.now() + 5_000, tally);
      await times(sockets, sockets, async (number) => {
        const way = ways[number % ways.length]!;
        const how = await holdOpen(target, number, way);
        tally.note(how);
        if (how === 'open') tally.problem(`${way.name}: open after ${closedWithinMs / 1000} s`);
      });
      over.abort();
      await Promise.all([visits, greedy]);
      const restedBy = performance.now() + restedWithinMs;
      while ((await metricOf(target, 'connections')) > 0 && performance.now() < restedBy) await sleep(200);
      const left = await metricOf(target, 'connections');
      if (left > 0) tally.problem(`the gateway still keeps ${left} connections`);
      const grown = (await metricOf(target, 'process_resident_memory_bytes')) - memoryBefore;
      if (!(grown < maxGrownBytes)) tally.problem(`the gateway has ${Math.round(grown / 2 ** 20)} MiB more`);
      return tally.result();
    },
  },
];
