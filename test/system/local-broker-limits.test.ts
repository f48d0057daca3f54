// What a stranger and a session can take of the local broker: connections, time and bytes before the login, packets after
// it. Also what a suspension of its machine may not do.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { setTimeout as pass } from 'node:timers/promises';
import { afterEach, beforeAll, afterAll, describe, expect, test, vi } from 'vitest';
import WebSocket from 'ws';
import { brokerLimitDefaults } from '../../dev/broker/limits.ts';
import { HookServer, hookServerSecret, topicRoot } from '../../rig/services/hook-server.ts';
import { LocalBroker } from '../../rig/services/local-broker.ts';
import { RawMqtt, type RawLogin } from '../../rig/clients/raw-mqtt.ts';

const hook = new HookServer();
const brokers: LocalBroker[] = [];
const clients: RawMqtt[] = [];
let workerUrl: string;
let devices = 0;

beforeAll(async () => {
  workerUrl = await hook.start();
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.leave();
  for (const broker of brokers.splice(0)) await broker.stop('SIGKILL');
});

afterAll(() => hook.server?.close());

async function start(limits = ''): Promise<LocalBroker> {
  const environment = { BROKER_LIMITS: limits };
  const broker = await LocalBroker.start({ workerUrl, hookSecret: hookServerSecret, environment });
  brokers.push(broker);
  return broker;
}

function newLogin(): RawLogin {
  devices += 1;
  const name = `switch-1&dev_l${String(devices).padStart(7, '0')}`;
  return { clientId: name, username: name, password: 'right' };
}

async function login(broker: LocalBroker, options = {}): Promise<RawMqtt> {
  const client = await RawMqtt.login(broker.port, newLogin(), options);
  clients.push(client);
  return client;
}

function stranger(broker: LocalBroker): RawMqtt {
  const client = RawMqtt.open(broker.port);
  clients.push(client);
  return client;
}

/** The beginning of a packet of that length, which is its first bytes alone. */
function beginPacket(type: number, length: number): Buffer {
  const digits: number[] = [];
  for (let rest = length; ; rest = Math.floor(rest / 128)) {
    digits.push(rest >= 128 ? (rest % 128) + 128 : rest);
    if (rest < 128) break;
  }
  return Buffer.from([type, ...digits]);
}

function returnCodes(client: RawMqtt): unknown[] {
  return client.received.flatMap((packet) => (packet.cmd === 'connack' ? [packet.returnCode] : []));
}

function residentKilobytes(pid: number | undefined): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

describe('before the login', () => {
  test('a packet that is announced too large ends the connection before it has come', async () => {
    const broker = await start();
    const client = stranger(broker);
    client.socket.write(beginPacket(0x10, 8 * 1024 * 1024));
    await client.untilClosed();
    await vi.waitFor(() => {
      const told = broker.lines.find(({ event }) => event === 'packet_too_large');
      expect(told).toMatchObject({ level: 'warn', address: '127.0.0.1', max: brokerLimitDefaults.connectBytes });
    });
  });

  test('many strangers who send what they can take no memory to speak of', async () => {
    const broker = await start();
    await login(broker);
    const before = residentKilobytes(broker.process.pid);
    const flood = Buffer.concat([beginPacket(0x10, 200_000_000), Buffer.alloc(1024 * 1024)]);
    const strangers = Array.from({ length: 64 }, () => stranger(broker));
    for (const { socket } of strangers) socket.write(flood);
    await Promise.all(strangers.map((client) => client.untilClosed()));
    // 64 MiB were sent; what the process keeps of that is noise of its own.
    expect(residentKilobytes(broker.process.pid) - before).toBeLessThan(48 * 1024);
    await login(broker);
  });

  test('a CONNECT of the largest size is read, and one byte more is not', async () => {
    const broker = await start('connectBytes=200');
    const { clientId } = newLogin();
    // The fixed header is two bytes or three.
    const send = async (bytes: number): Promise<RawMqtt> => {
      const client = stranger(broker);
      const base = 10 + 2 + clientId.length + 2 + clientId.length + 2;
      const password = Buffer.alloc(bytes - base - 3, 'x');
      const session = { protocolId: 'MQTT', protocolVersion: 4, clean: true, keepalive: 0 } as const;
      client.send({ cmd: 'connect', ...session, clientId, username: clientId, password });
      await client.untilClosed();
      return client;
    };
    expect(returnCodes(await send(200))).toEqual([4]);
    expect(returnCodes(await send(201))).toEqual([]);
  });

  test('a connection that says nothing, or HTTP without an end, is closed', async () => {
    const broker = await start('connectSeconds=1');
    const mute = stranger(broker);
    const slow = connectTcp(broker.ready.wsPort, '127.0.0.1');
    slow.write('GET /mqtt HTTP/1.1\r\nHost: x\r\n');
    slow.resume();
    await Promise.all([mute.untilClosed(), once(slow, 'close')]);
    await vi.waitFor(() => {
      const told = broker.lines.find(({ event }) => event === 'connection_ended');
      expect(told).toMatchObject({ address: '127.0.0.1', error: 'connect did not arrive in time' });
    });
  });

  test('a WebSocket frame that is too large ends its connection with 1009', async () => {
    const broker = await start();
    const socket = new WebSocket(`ws://127.0.0.1:${broker.ready.wsPort}/mqtt`, 'mqtt');
    await once(socket, 'open');
    socket.send(Buffer.alloc(brokerLimitDefaults.packetBytes + 1));
    const [code] = (await once(socket, 'close')) as [number];
    expect(code).toBe(1009);
  });
});

describe('connections', () => {
  test.each([
    ['of one address', 'connectionsPerAddress=3', { connectionsPerAddress: 3 }],
    ['in all', 'connections=3', { connections: 3 }],
  ])('beyond the limit %s are told that the server is unavailable, until there is room', async (_, limits, told) => {
    const broker = await start(limits);
    const [first] = [await login(broker), await login(broker), stranger(broker)];
    const refused = stranger(broker);
    await refused.untilClosed();
    expect(returnCodes(refused)).toEqual([3]);
    const overHttp = await fetch(`http://127.0.0.1:${broker.ready.wsPort}/`);
    expect(overHttp.status).toBe(503);
    await vi.waitFor(() => {
      const lines = broker.lines.filter(({ event }) => event === 'connection_refused');
      expect(lines).toMatchObject([
        { address: '127.0.0.1', ...told },
        { address: '127.0.0.1', ...told },
      ]);
    });
    first.leave();
    await vi.waitFor(async () => expect(returnCodes(await login(broker))).toEqual([0]));
  });
});

describe('after the login', () => {
  test('a packet of the largest size passes, and a larger one ends its sender alone', async () => {
    const broker = await start('packetBytes=2000');
    const other = await login(broker);
    for (const [extra, isClosed] of [
      [0, false],
      [1, true],
    ] as const) {
      const own = newLogin();
      const client = await RawMqtt.login(broker.port, own);
      clients.push(client);
      const topic = `${topicRoot(own.clientId)}/status`;
      const payload = Buffer.alloc(2000 + extra - 2 - topic.length - 2);
      client.send({ cmd: 'publish', topic, payload, qos: 1, messageId: 7, dup: false, retain: false });
      if (isClosed) await client.untilClosed();
      else await client.until('PUBACK', () => client.received.some(({ cmd }) => cmd === 'puback'));
      expect(client.received.some(({ cmd }) => cmd === 'puback')).toBe(!isClosed);
    }
    expect(other.isClosed).toBe(false);
  });
});

test('a client that publishes beyond its burst is taken at a rate, in order, and others are not held up by it', async () => {
  const broker = await start('publishBurst=10,publishesPerSecond=20');
  const [own, count] = [newLogin(), 30];
  const client = await RawMqtt.login(broker.port, own);
  clients.push(client);
  const startedAt = performance.now();
  const topic = `${topicRoot(own.clientId)}/status`;
  for (let messageId = 1; messageId <= count; messageId++) {
    client.send({ cmd: 'publish', topic, payload: 'x', qos: 1, messageId, dup: false, retain: false });
  }
  const other = await login(broker);
  other.send({ cmd: 'pingreq' });
  await other.until('PINGRESP', () => other.received.some(({ cmd }) => cmd === 'pingresp'));
  const acknowledged = () => client.received.filter(({ cmd }) => cmd === 'puback').map(({ messageId }) => messageId);
  await client.until('every PUBACK', () => acknowledged().length === count);
  expect(performance.now() - startedAt).toBeGreaterThan(900);
  expect(acknowledged()).toEqual(Array.from({ length: count }, (_, index) => index + 1));
});

test('logins of an address where many were refused wait a second, the first ones do not', async () => {
  const broker = await start('refusedLoginBurst=2,refusedLoginsPerMinute=1');
  const times: number[] = [];
  for (let count = 0; count < 4; count++) {
    const startedAt = performance.now();
    const client = await RawMqtt.login(broker.port, { ...newLogin(), password: 'wrong' });
    clients.push(client);
    expect(client.received[0]).toMatchObject({ cmd: 'connack', returnCode: 4 });
    times.push(performance.now() - startedAt);
  }
  expect(times.at(-1)).toBeGreaterThan(990);
  expect(returnCodes(await login(broker))).toEqual([0]);
});

test('a session is not ended for its keep-alive by a suspension of the machine', async () => {
  const broker = await start();
  const own = newLogin();
  const client = await RawMqtt.login(broker.port, own, { keepalive: 2 });
  clients.push(client);
  await vi.waitFor(() => expect(hook.eventsOf(own.clientId)).toEqual(['client.connected']));
  broker.process.kill('SIGSTOP');
  // Longer than 1.5 times the keep-alive; the client was suspended as well and sent nothing.
  await pass(5_000);
  broker.process.kill('SIGCONT');
  client.send({ cmd: 'pingreq' });
  await client.until('PINGRESP', () => client.received.some(({ cmd }) => cmd === 'pingresp'));
  expect(hook.eventsOf(own.clientId)).toEqual(['client.connected']);
  // One that stays away afterwards is missed all the same.
  await client.untilClosed();
  await vi.waitFor(() => expect(hook.eventsOf(own.clientId)).toContain('client.disconnected keepalive_timeout'));
});
